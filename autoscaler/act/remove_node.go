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

// removeNode gives one node back.
func (a *Actor) removeNode(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	return a.takeOut(ctx, r, pool, action, removeReason, func(node *corev1.Node) error {
		nodes, err := a.nodesOf(ctx, pool)
		if err != nil {
			return err
		}
		if nodes <= int(pool.Spec.Min) {
			return refuse("pool %s has %d nodes, min is %d", pool.Name, nodes, pool.Spec.Min)
		}
		return nil
	})
}

// takeOut deletes an empty node: it looks, cordons, looks again, and deletes this
// very node as it was last read. A pod that came in between keeps it.
func (a *Actor) takeOut(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action, why string, may func(*corev1.Node) error) error {
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := ofPool(pool, node); err != nil {
			return err
		}
		if _, underWay, _ := partition.RecordOf(node); underWay {
			return refuse("node %s has an operation under way", node.Name)
		}
		if err := may(node); err != nil {
			return err
		}
		if err := a.empty(ctx, node.Name); err != nil {
			return err
		}
		return a.cordon(ctx, node, why)
	})
	if err != nil {
		return err
	}
	err = a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := a.empty(ctx, node.Name); err != nil {
			if node.Annotations[v1alpha1.CordonAnnotation] != why {
				return err // cordoned before, by somebody or for a drain
			}
			// Should this fail, the planner asks for it next round.
			if undo := a.liftCordon(ctx, node, why); undo != nil {
				return fmt.Errorf("%w; uncordoning it: %w", err, undo)
			}
			return err
		}
		return a.o.Pools.Delete(ctx, pool, []*corev1.Node{node})
	})
	if err == nil {
		r.gone[pool.Name]++
	}
	return err
}

// ofPool refuses a node that is not the pool's to take away.
func ofPool(pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if pool == nil || node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return refuse("node %s is not of the pool that gives it back", node.Name)
	}
	if pool.Spec.ScaleDown.Disabled {
		return refuse("pool %s gives no node back", pool.Name)
	}
	return nil
}

// nodesOf counts the pool's Node objects.
func (a *Actor) nodesOf(ctx context.Context, pool *v1alpha1.GPUNodePool) (int, error) {
	var nodes corev1.NodeList
	if err := a.o.Live.List(ctx, &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}); err != nil {
		return 0, fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	return len(nodes.Items), nil
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
