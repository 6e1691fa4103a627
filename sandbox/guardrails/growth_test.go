package guardrails

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
)

// TestGrowthIsBounded: two nodes a reconcile and three an hour of one pool, whatever
// waits; the pool says so, and an hour later it grows on.
func TestGrowthIsBounded(t *testing.T) {
	testall.Only(t, "the bound over real nodes; plan/scenario has bounds and bounds_per_hour")
	w := newWorld(t, setup{policy: func(p *plan.Policy) { p.MaxNodesPerScaleUp, p.MaxNodesPerHour = 2, 3 }})
	w.pool("h100", 0, 10)
	w.work("train", "h100", 6, perNode)
	w.await("the pods wait", w.waits("train", 6))
	w.reconcile()
	if n := len(w.nodes("h100")); n != 2 {
		t.Fatalf("%d nodes after a reconcile, 2 may be asked for at once", n)
	}
	w.until("the hour's nodes", w.has("h100", 3))
	w.reconciles(10)
	if n := len(w.nodes("h100")); n != 3 {
		t.Fatalf("%d nodes within an hour, want 3", n)
	}
	w.until("the pool has the reason", func() error { return w.limited("h100", plan.BoundReached) })
	w.pass(time.Hour)
	w.until("the next hour's nodes", w.has("h100", 6))
}

// limited is for await and until: what keeps a pool from growing is a condition, or
// a verdict on the pending pods.
func (w *world) limited(pool string, want plan.Reason) error {
	last, _ := w.loop.State.Last()
	for _, v := range last.Plan.Verdicts {
		if v.Kind == plan.KindPod && v.Reason == want && strings.Contains(v.Detail, pool) {
			return nil
		}
	}
	return w.reason(pool, want)()
}
