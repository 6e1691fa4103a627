package act

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// softTaint adds or removes v1alpha1.EmptyTaint. Other taints stay as they are.
func (a *Actor) softTaint(ctx context.Context, r *reconcile, action plan.Action) error {
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		add := action.Verb == plan.SoftTaint
		if add == v1alpha1.SoftTainted(node) {
			return nil
		}
		return a.patchNode(ctx, node, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.EmptyTaint })
			if add {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.EmptyTaint, Effect: corev1.TaintEffectPreferNoSchedule})
			}
		})
	})
}
