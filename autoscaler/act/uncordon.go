package act

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// uncordon ends a repartition that succeeded, or lifts a cordon of ours whose
// operation has ended. A cordon without our annotation stays.
func (a *Actor) uncordon(ctx context.Context, action plan.Action) error {
	return a.onNode(ctx, action.Node, func(node *corev1.Node) error {
		record, ok, err := partition.RecordOf(node)
		switch {
		case err != nil:
			return fmt.Errorf("node %s: %w; remove it by hand", node.Name, err)
		case !ok:
			// An action that names no operation ends a drain.
			return a.liftCordon(ctx, node, cmp.Or(action.Operation, drainReason))
		case record.ID != action.Operation:
			return refuse("node %s has operation %s under way, not %s", node.Name, record.ID, action.Operation)
		}
		if op := partition.OperationOf(node); op.Phase != plan.PhaseSucceeded {
			return refuse("operation %s on node %s is %s: %s", record.ID, node.Name, op.Phase, op.Message)
		}
		return a.o.Partition.Unmark(ctx, node, record)
	})
}

// liftCordon lifts a cordon of ours with this reason and ends the node's drain. A
// cordon without our annotation stays.
func (a *Actor) liftCordon(ctx context.Context, node *corev1.Node, why string) error {
	by := node.Annotations[v1alpha1.CordonAnnotation]
	_, draining := node.Annotations[v1alpha1.DrainAnnotation]
	switch {
	case by == "" && !draining:
		return nil // already lifted
	case by != "" && by != why:
		return refuse("node %s is cordoned by %s, not %s", node.Name, by, why)
	}
	return a.patchNode(ctx, node, func(n *corev1.Node) {
		delete(n.Annotations, v1alpha1.DrainAnnotation)
		delete(n.Annotations, v1alpha1.CordonAnnotation)
		if by != "" {
			n.Spec.Unschedulable = false
		}
	})
}

// setCordon makes a node unschedulable and annotates the reason. It leaves a node alone that is
// cordoned already.
func setCordon(n *corev1.Node, why string) {
	if n.Spec.Unschedulable {
		return
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.CordonAnnotation, why)
	n.Spec.Unschedulable = true
}

// patchNode writes a change, under the resourceVersion that was read.
func (a *Actor) patchNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) error {
	if err := partition.PatchNode(ctx, a.o.Client, node, change); err != nil {
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	return nil
}
