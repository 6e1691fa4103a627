package guardrails

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
)

// TestSurplusGoes: 110 nodes are empty at once. First nothing goes,
// since so much at once may be a mistake; then all of them, in less than five minutes
// of the loop's clock, at most ten in a reconcile.
func TestSurplusGoes(t *testing.T) {
	testall.Only(t, "110 real nodes; plan/scenario has too_many_idle and removal_velocity")
	const surplus = 110
	w := newWorld(t, setup{})
	w.pool("h100", int32(surplus), int32(surplus)+10)
	w.until("the fleet", w.has("h100", surplus))
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	w.reconcile() // seen empty, all of them, for the first time now

	w.elapse(11*time.Minute, atRest) // past the cooldown of the growth and every pool's idleAfter
	if n := len(w.nodes("h100")); n != surplus {
		t.Fatalf("%d nodes: %d went though all of the fleet has come to look idle at once", n, surplus-n)
	}
	w.until("the pool has the reason", w.reason("h100", plan.TooManyIdle))

	w.elapse(3*time.Minute+30*time.Second, step)
	w.until("the doubt ends", func() error { // a quarter of an hour after the last of them
		if len(w.nodes("h100")) == surplus {
			w.pass(5 * time.Second)
			return errors.New("none has gone")
		}
		return nil
	})
	begin := w.now()
	w.give(5*time.Minute, func(left int) bool { return left == 0 })
	if n := len(w.nodes("h100")); n != 0 {
		t.Fatalf("%d nodes are left after five minutes", n)
	}
	t.Logf("%d nodes went in %s of the loop's clock", surplus, w.now().Sub(begin).Round(time.Second))
}

// TestRemovalsWithinTenMinutes: five nodes within ten minutes, of two pools together
// and across a restart, and the next five after that.
func TestRemovalsWithinTenMinutes(t *testing.T) {
	testall.Only(t, "the bound over real nodes; autoscaler/act has it with a client of its own")
	few := setup{policy: func(p *plan.Policy) { p.MaxRemovalsPerTenMinutes, p.MaxIdleAtOnce = 5, 1 }}
	w := newWorld(t, few)
	left := func() int { return len(w.nodes("h100")) + len(w.nodes("l40s")) }
	for _, pool := range []string{"h100", "l40s"} {
		w.pool(pool, 6, 6)
		w.until("the fleet", w.has(pool, 6))
		w.edit(pool, func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	}
	w.until("the first goes", func() error {
		if left() == 12 {
			w.pass(step)
			return errors.New("none has gone")
		}
		return nil
	})
	w.elapse(4*time.Minute, step)
	if n := left(); n != 7 {
		t.Fatalf("%d nodes are left, want five fewer than twelve", n)
	}
	w.until("a pool has the reason", w.reason("l40s", plan.BoundReached))
	w.start(few)
	w.elapse(4*time.Minute, step)
	if n := left(); n != 7 {
		t.Fatalf("%d nodes are left: the bound does not hold across a restart", n)
	}
	w.elapse(7*time.Minute, step)
	if n := left(); n != 2 {
		t.Fatalf("%d nodes are left, want five fewer than seven", n)
	}
}

// give reconciles every ten seconds of the loop's clock, for so long or until enough,
// and fails where a reconcile removes more than ten.
func (w *world) give(long time.Duration, enough func(left int) bool) {
	w.t.Helper()
	before := len(w.nodes("h100"))
	for begin := w.now(); w.now().Sub(begin) < long && !enough(before); w.pass(10 * time.Second) {
		w.reconcile()
		left := len(w.nodes("h100"))
		if before-left > 10 {
			w.t.Fatalf("%d nodes went in a reconcile", before-left)
		}
		before = left
	}
}

// goesOn lets time pass until so many nodes are left.
func (w *world) goesOn(pool string, left int) func() error {
	return func() error {
		if n := len(w.nodes(pool)); n != left {
			w.pass(step)
			return fmt.Errorf("%d nodes are left, want %d; %s", n, left, w.statusOf(pool))
		}
		return nil
	}
}
