package guardrails

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestStateIsWrittenFirst: while the API server accepts no status of a pool, no node
// is added or cordoned: the next process would repeat an action that is not recorded.
func TestStateIsWrittenFirst(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 0, 5)
	w.until("the pool is known", func() error { return nil })
	w.refuseStatuses()
	w.work("train", "h100", 2, perNode)
	w.await("the pods wait", w.waits("train", 2))
	for range 5 {
		w.must(w.loop.Once(t.Context()))
		last, _ := w.loop.State.Last()
		if len(last.Plan.Actions) != 0 || len(last.Unsaved) != 1 || last.Unsaved["h100"] == nil || len(last.Plan.State.Grown) != 0 {
			t.Fatalf("a reconcile without memory: %v, %v, %v", last.Plan.Actions, last.Unsaved, last.Plan.State.Grown)
		}
	}
	if n := len(w.nodes("h100")); n != 0 {
		t.Fatalf("%d nodes were added without a record", n)
	}
	w.allowStatuses()
	w.until("once it is safe, it is done", w.has("h100", 2))
}

// refuseStatuses has the API server refuse the autoscaler's writes to the status of
// pools.
func (w *world) refuseStatuses() {
	w.t.Helper()
	policies := w.objects("no-status.yaml")
	w.apply(policies...)
	w.t.Cleanup(func() {
		for _, o := range policies {
			_ = w.Admin.Delete(context.Background(), o)
		}
	})
	w.await("the policy holds", func() error {
		if w.touchStatus() == nil {
			return errors.New("statuses are still taken")
		}
		return nil
	})
}

func (w *world) allowStatuses() {
	w.t.Helper()
	w.must(w.Admin.Delete(w.t.Context(), testenv.Object("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding", "", "no-status")))
	w.await("the policy has gone", w.touchStatus)
}

// touchStatus writes a pool's status as the autoscaler.
func (w *world) touchStatus() error {
	pool := w.get("h100")
	before := pool.DeepCopy()
	pool.Status.Message += "."
	return w.ours.Status().Patch(w.t.Context(), pool, client.MergeFrom(before))
}
