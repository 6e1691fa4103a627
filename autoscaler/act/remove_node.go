package act

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// removeReason in the cordon annotation.
const removeReason = "remove"

// removeNode gives one node back.
func (a *Actor) removeNode(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	err := a.takeOut(ctx, r, pool, action, takeOut{
		why: removeReason,
		may: func(*corev1.Node) error {
			have, err := a.standing(ctx, pool)
			if err != nil {
				return err
			}
			if nodes := min(have.nodes, have.target); nodes <= int(pool.Spec.Min) {
				return refuse("pool %s has %d nodes, min is %d", pool.Name, nodes, pool.Spec.Min)
			}
			return nil
		},
		take: func(node *corev1.Node) error { return a.o.Pools.Delete(ctx, pool, []*corev1.Node{node}) },
	})
	if err == nil {
		r.gone[pool.Name]++
	}
	return err
}

// takeOut is one way for a node to leave its pool.
type takeOut struct {
	why  string                   // in the cordon annotation
	may  func(*corev1.Node) error // refuses, before anything is written
	take func(*corev1.Node) error // the node as it was last read
}

// takeOut takes an empty node away: it looks, cordons, looks again, and takes this
// very node as it was last read. A pod that came in between keeps it.
func (a *Actor) takeOut(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action, t takeOut) error {
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := givesBack(pool, node); err != nil {
			return err
		}
		if _, underWay, _ := partition.RecordOf(node); underWay {
			return refuse("node %s has an operation under way", node.Name)
		}
		if err := notCordonedByOthers(node); err != nil {
			return err
		}
		if err := t.may(node); err != nil {
			return err
		}
		if err := a.empty(ctx, node.Name); err != nil {
			return err
		}
		return a.cordon(ctx, node, t.why)
	})
	if err != nil {
		return err
	}
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		err := givesBack(pool, node)
		if err == nil {
			err = a.empty(ctx, node.Name)
		}
		if err != nil {
			if node.Annotations[v1alpha1.CordonAnnotation] != t.why {
				return err // cordoned before, for a drain
			}
			// Should this fail, the planner asks for it next round.
			if undo := a.liftCordon(ctx, node, t.why); undo != nil {
				return fmt.Errorf("%w; uncordoning it: %w", err, undo)
			}
			return err
		}
		return t.take(node)
	})
}

// ofPool refuses a node that is not of the pool.
func ofPool(pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if pool == nil || node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return refuse("node %s is not of the pool that gives it back", node.Name)
	}
	return nil
}

// givesBack refuses a node that is not the pool's to take away.
func givesBack(pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if err := ofPool(pool, node); err != nil {
		return err
	}
	if pool.Spec.ScaleDown.Disabled || pool.Spec.Provider.Fixed != nil {
		return refuse("pool %s gives no node back", pool.Name)
	}
	if v1alpha1.ScaleDownDisabled(node) {
		return refuse("node %s says that it must not be removed", node.Name)
	}
	return nil
}

// notCordonedByOthers refuses a node that somebody else has taken out of service:
// what they do there is not known.
func notCordonedByOthers(node *corev1.Node) error {
	if node.Spec.Unschedulable && node.Annotations[v1alpha1.CordonAnnotation] == "" {
		return refuse("somebody cordoned node %s", node.Name)
	}
	return nil
}

// strength of a pool.
type strength struct {
	nodes  int // Node objects that are not on their way out
	target int // what its provider was last asked for
}

// standing counts a pool now. A node that was taken away is of no pool any more,
// though its object may be there for minutes.
func (a *Actor) standing(ctx context.Context, pool *v1alpha1.GPUNodePool) (strength, error) {
	listing, err := a.o.Pools.List(ctx, pool)
	if err != nil {
		return strength{}, fmt.Errorf("asking the provider of pool %s: %w", pool.Name, err)
	}
	ofPool := client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}
	if len(listing.Going) == 0 {
		// Of a thousand nodes, their names are a fifth of what they are.
		var names metav1.PartialObjectMetadataList
		names.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := a.o.Live.List(ctx, &names, ofPool); err != nil {
			return strength{}, fmt.Errorf("counting the nodes of pool %s: %w", pool.Name, err)
		}
		return strength{nodes: len(names.Items), target: listing.Target}, nil
	}
	var nodes corev1.NodeList
	if err := a.o.Live.List(ctx, &nodes, ofPool); err != nil {
		return strength{}, fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	out := strength{target: listing.Target}
	for i := range nodes.Items {
		if id := nodes.Items[i].Spec.ProviderID; id == "" || !slices.Contains(listing.Going, pools.LastPart(id)) {
			out.nodes++
		}
	}
	return out, nil
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
