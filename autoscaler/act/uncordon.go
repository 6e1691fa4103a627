package act

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// uncordon ends a repartition that succeeded, or lifts a cordon of ours that
// nothing stands behind any more. Somebody else's cordon stays.
func (a *Actor) uncordon(ctx context.Context, action plan.Action) error {
	return a.onNode(ctx, action.Node, func(node *corev1.Node) error {
		record, ok, err := partition.RecordOf(node)
		switch {
		case err != nil:
			return fmt.Errorf("node %s: %w; remove it by hand", node.Name, err)
		case !ok:
			return a.liftCordon(ctx, node, action.Operation)
		case record.ID != action.Operation:
			return refuse("node %s has operation %s under way, not %s", node.Name, record.ID, action.Operation)
		}
		if op := partition.OperationOf(node); op.Phase != plan.PhaseSucceeded {
			return refuse("operation %s on node %s is %s: %s", record.ID, node.Name, op.Phase, op.Message)
		}
		return a.o.Partition.Unmark(ctx, node, record)
	})
}

func (a *Actor) liftCordon(ctx context.Context, node *corev1.Node, why string) error {
	switch by := node.Annotations[v1alpha1.CordonAnnotation]; by {
	case "":
		return nil // it is done
	case why:
		return a.patchNode(ctx, node, func(n *corev1.Node) {
			delete(n.Annotations, v1alpha1.CordonAnnotation)
			n.Spec.Unschedulable = false
		})
	default:
		return refuse("node %s is cordoned by %s, not %s", node.Name, by, why)
	}
}

// cordon makes a node unschedulable and says why, in one write. A node that
// somebody else cordoned stays theirs.
func (a *Actor) cordon(ctx context.Context, node *corev1.Node, why string) error {
	if node.Spec.Unschedulable {
		return nil
	}
	return a.patchNode(ctx, node, func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[v1alpha1.CordonAnnotation] = why
		n.Spec.Unschedulable = true
	})
}

// patchNode writes a change unless the node has changed since it was read.
func (a *Actor) patchNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) error {
	base := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	change(node)
	if err := a.o.Client.Patch(ctx, node, base); err != nil {
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	return nil
}
