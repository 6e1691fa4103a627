package guardrails

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
)

// ward is a pool of two nodes of which one is sick, and being drained; its pod is
// kept there by a budget.
type ward struct {
	*world
	sick   string
	uid    types.UID // of the sick node
	app    *appsv1.Deployment
	budget *policyv1.PodDisruptionBudget
}

func newWard(t *testing.T, s setup, change ...func(*corev1.PodTemplateSpec)) *ward {
	t.Helper()
	w := &ward{world: newWorld(t, s)}
	w.pool("h100", 2, 4)
	w.until("the fleet", w.has("h100", 2))
	w.app = w.work("train", "h100", 1, 1, change...)
	w.await("it runs", w.runs("train", 1))
	w.budget = w.world.budget("train")
	w.sick = w.pods("train")[0].Spec.NodeName
	w.uid = w.node(w.sick).UID
	w.exporters.set(func() { w.exporters.sick[w.sick] = true })
	w.reconcile()
	w.pass(11 * time.Minute) // longer than sickAfter, and than any cooldown
	return w
}

// pod is the only one there is.
func (w *ward) pod() *corev1.Pod {
	w.t.Helper()
	pods := w.pods("train")
	if len(pods) != 1 {
		w.t.Fatalf("%d pods", len(pods))
	}
	return &pods[0]
}

// TestFreezeDuringADrain: a freeze, of the pool or in the configuration, takes back
// a drain within a reconcile, and nothing begins under it, whatever waits, is empty or
// is sick. When it is lifted the drain begins again, keeps to the budget, and ends
// with another node in the sick one's place.
func TestFreezeDuringADrain(t *testing.T) {
	testall.Only(t, "a drain of real pods; plan/scenario has freeze_finishes")
	w := newWard(t, setup{})
	pod := w.pod().UID
	w.until("the drain begins", w.draining(w.sick))

	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Freeze = true })
	w.reconcile()
	if err := w.untouched(w.sick); err != nil {
		t.Fatalf("frozen for a reconcile: %v", err)
	}
	w.stands(pod)
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Freeze = false })
	w.until("the drain begins again", w.draining(w.sick))

	w.start(setup{policy: func(p *plan.Policy) { p.Freeze = true }})
	w.reconcile()
	if err := w.untouched(w.sick); err != nil {
		t.Fatalf("frozen for a reconcile: %v", err)
	}
	w.stands(pod)
	w.until("the pool has the reason", w.reason("h100", plan.Frozen))

	w.start(setup{})
	w.until("the drain begins again", w.draining(w.sick))
	w.reconciles(5)
	if w.pod().UID != pod || w.pod().DeletionTimestamp != nil {
		t.Fatal("the pod was evicted in spite of its budget")
	}
	w.must(w.Admin.Delete(t.Context(), w.budget))
	w.until("the pod runs elsewhere", func() error {
		if err := w.runs("train", 1)(); err != nil {
			return err
		}
		for _, p := range w.pods("train") {
			if p.UID == pod || p.Spec.NodeName == w.sick {
				return fmt.Errorf("on %s", p.Spec.NodeName)
			}
		}
		return nil
	})
	w.pass(plan.RemoveDelay)
	w.until("another node has come", func() error {
		for _, n := range w.nodes("h100") {
			if n.UID == w.uid {
				return errors.New("the sick one is still there")
			}
		}
		return w.has("h100", 2)()
	})
}

// stands fails where anything begins under a freeze: a pod waits, the other node is
// empty, a day goes by.
func (w *ward) stands(pod types.UID) {
	w.t.Helper()
	more := w.work("more", "h100", 3, perNode)
	w.await("they wait", w.waits("more", 2)) // one fits
	w.reconciles(3)
	w.pass(time.Hour)
	w.reconciles(3)
	if n := len(w.nodes("h100")); n != 2 {
		w.t.Errorf("frozen, and yet there are %d nodes", n)
	}
	for _, n := range w.nodes("h100") {
		if err := w.untouched(n.Name); err != nil {
			w.t.Errorf("frozen, and yet: %v", err)
		}
	}
	if p := w.pod(); p.UID != pod || p.DeletionTimestamp != nil {
		w.t.Error("frozen, and yet the pod was evicted")
	}
	w.must(w.Admin.Delete(w.t.Context(), more))
	w.await("they are gone", func() error {
		if n := len(w.pods("more")); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
}
