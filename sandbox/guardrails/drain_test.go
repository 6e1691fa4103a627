package guardrails

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// TestDrainWaitsForTheCheckpoint: a pod with a time from which it may be moved is asked
// then, not before, and has its own grace.
func TestDrainWaitsForTheCheckpoint(t *testing.T) {
	var from time.Time
	w := newWard(t, setup{}, func(p *corev1.PodTemplateSpec) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](77)
	})
	w.must(w.Admin.Delete(t.Context(), w.budget))
	pod := w.pod()
	before := pod.DeepCopy()
	from = w.now().Add(5 * time.Minute).Truncate(time.Second)
	pod.Annotations = map[string]string{v1alpha1.EvictFromAnnotation: from.Format(time.RFC3339)}
	w.must(w.Admin.Patch(t.Context(), pod, client.MergeFrom(before)))
	w.until("the drain begins", w.draining(w.sick))
	w.pass(from.Sub(w.now()) - time.Minute) // far more than the reconciles take
	w.reconciles(3)
	if e := w.evictions(pod.Name); len(e) > 0 || w.pod().UID != pod.UID {
		t.Fatalf("evicted before its checkpoint: %v", e)
	}
	w.pass(time.Minute)
	w.until("it is asked to leave", func() error {
		switch e := w.evictions(pod.Name); {
		case len(e) == 0:
			return errors.New("it is not")
		case len(e) > 1 || e[0].RequestObject.DeleteOptions.GracePeriodSeconds != nil:
			t.Errorf("evictions %v: want one, with the grace that is the pod's own", e)
		}
		return nil
	})
}

// TestSafeToEvict: a node with a pod that must not be moved is not drained, however
// sick; the GPU's reason says why.
func TestSafeToEvict(t *testing.T) {
	for name, key := range map[string]string{"ours": v1alpha1.SafeToEvictAnnotation, "another": v1alpha1.OtherSafeToEvictAnnotation} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t, setup{}, func(p *corev1.PodTemplateSpec) { p.Annotations[key] = "false" })
			w.must(w.Admin.Delete(t.Context(), w.budget))
			uid := w.pod().UID
			w.reconciles(3)
			w.pass(time.Hour)
			w.reconciles(3)
			require.NoError(t, w.untouched(w.sick))
			if p := w.pod(); p.UID != uid || p.DeletionTimestamp != nil {
				t.Error("the pod was evicted")
			}
			if v := verdict(w.world, plan.KindNode, w.sick); v.Reason != plan.NodeSick {
				t.Errorf("the node's verdict is %+v", v)
			}
		})
	}
}
