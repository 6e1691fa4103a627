package act

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// removeReason in the cordon annotation.
const removeReason = "remove"

// removeNode gives one node back: it looks, cordons, looks again, and deletes
// this very node as it was last read. A pod that came in between keeps it.
func (a *Actor) removeNode(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := a.mayGo(ctx, pool, node); err != nil {
			return err
		}
		if err := a.empty(ctx, node.Name); err != nil {
			return err
		}
		return a.cordon(ctx, node, removeReason)
	})
	if err != nil {
		return err
	}
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := a.empty(ctx, node.Name); err != nil {
			// Should this fail, the planner asks for it next round.
			if undo := a.liftCordon(ctx, node, removeReason); undo != nil {
				return fmt.Errorf("%w; uncordoning it: %w", err, undo)
			}
			return err
		}
		return a.o.Pools.Delete(ctx, pool, []*corev1.Node{node})
	})
}

// mayGo checks everything but the pods.
func (a *Actor) mayGo(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if pool == nil || node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return refuse("node %s is not of the pool that gives it back", node.Name)
	}
	if pool.Spec.ScaleDown.Disabled {
		return refuse("pool %s gives no node back", pool.Name)
	}
	if _, underWay, _ := partition.RecordOf(node); underWay {
		return refuse("node %s has an operation under way", node.Name)
	}
	var nodes corev1.NodeList
	if err := a.o.Live.List(ctx, &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}); err != nil {
		return fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	if len(nodes.Items) <= int(pool.Spec.Min) {
		return refuse("pool %s has %d nodes, min is %d", pool.Name, len(nodes.Items), pool.Spec.Min)
	}
	return nil
}

// empty refuses while anything but daemons runs on the node.
func (a *Actor) empty(ctx context.Context, node string) error {
	pods, err := a.podsOn(ctx, node)
	if err != nil {
		return err
	}
	for i := range pods {
		if !kube.IsDaemon(&pods[i]) {
			return refuse("pod %s/%s is on node %s", pods[i].Namespace, pods[i].Name, node)
		}
	}
	return nil
}
