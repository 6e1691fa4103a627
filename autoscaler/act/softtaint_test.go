package act

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// TestSoftTaint: the taint comes and goes beside others, and nothing is written twice.
func TestSoftTaint(t *testing.T) {
	w := newWorld(t, nil)
	other := corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	node := w.node()
	node.Spec.Taints = []corev1.Taint{other}
	w.must(w.client.Update(t.Context(), node))
	for _, s := range []struct {
		verb   plan.Verb
		taints []corev1.Taint
		writes int
	}{
		{plan.SoftTaint, []corev1.Taint{other, {Key: v1alpha1.EmptyTaint, Effect: corev1.TaintEffectPreferNoSchedule}}, 1},
		{plan.SoftTaint, []corev1.Taint{other, {Key: v1alpha1.EmptyTaint, Effect: corev1.TaintEffectPreferNoSchedule}}, 0},
		{plan.RemoveSoftTaint, []corev1.Taint{other}, 1},
		{plan.RemoveSoftTaint, []corev1.Taint{other}, 0},
	} {
		before := w.writes
		w.want(Done, plan.Action{Verb: s.verb, Pool: "p", Node: "p-1", Reason: plan.NodeEmpty})
		if got := w.node().Spec.Taints; !equality.Semantic.DeepEqual(got, s.taints) || w.writes-before != s.writes {
			t.Errorf("%s: %v after %d writes, want %v after %d", s.verb, got, w.writes-before, s.taints, s.writes)
		}
	}
}
