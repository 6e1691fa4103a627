package rails

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// surplus is how many empty nodes TestSurplusGoes gives back.
const surplus = 110

// TestSurplusGoes: a hundred and ten nodes are empty at once. First nothing goes,
// since so much at once may be a mistake; then all of them, in less than five minutes
// of the loop's clock, at most ten in a round.
func TestSurplusGoes(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", surplus, surplus+10)
	w.until("the fleet", w.has("h100", surplus))
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	w.turn() // seen empty, all of them, for the first time now

	w.elapse(11 * time.Minute) // past the cooldown of the growth and everybody's idleAfter
	if n := len(w.nodes("h100")); n != surplus {
		t.Fatalf("%d nodes: %d went though all of the fleet has come to look idle at once", n, surplus-n)
	}
	w.until("the pool says so", w.reason("h100", plan.TooManyIdle))

	w.elapse(3*time.Minute + 30*time.Second)
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
			w.pass(10 * time.Second)
			return errors.New("none has gone")
		}
		return nil
	})
	w.elapse(4 * time.Minute)
	if n := left(); n != 7 {
		t.Fatalf("%d nodes are left, want five fewer than twelve", n)
	}
	w.until("a pool says so", w.reason("l40s", plan.BoundReached))
	w.start(few)
	w.elapse(4 * time.Minute)
	if n := left(); n != 7 {
		t.Fatalf("%d nodes are left: the bound does not hold across a restart", n)
	}
	w.elapse(7 * time.Minute)
	if n := left(); n != 2 {
		t.Fatalf("%d nodes are left, want five fewer than seven", n)
	}
}

// give turns every ten seconds of the loop's clock, for so long or until enough, and
// fails where a round takes more than ten.
func (w *world) give(long time.Duration, enough func(left int) bool) {
	w.t.Helper()
	before := len(w.nodes("h100"))
	for begin := w.now(); w.now().Sub(begin) < long && !enough(before); w.pass(10 * time.Second) {
		w.turn()
		left := len(w.nodes("h100"))
		if before-left > 10 {
			w.t.Fatalf("%d nodes went in a round", before-left)
		}
		before = left
	}
}

// TestDataGoesLast: of empty nodes the one with cached datasets is the last to go,
// though it has been empty for as long.
func TestDataGoesLast(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 3, 5)
	w.until("the fleet", w.has("h100", 3))
	w.patchNode("h100-1", func(n *corev1.Node) { n.Labels["fluid.io/s-data-imagenet"] = "true" })
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	w.until("two have gone", w.goesOn("h100", 1))
	if n := w.nodes("h100")[0].Name; n != "h100-1" {
		t.Errorf("%s is left, want the one that holds data", n)
	}
}

// goesOn lets ten seconds pass until so many nodes are left.
func (w *world) goesOn(pool string, left int) func() error {
	return func() error {
		if n := len(w.nodes(pool)); n != left {
			w.pass(10 * time.Second)
			return fmt.Errorf("%d nodes are left, want %d; %s", n, left, w.says(pool))
		}
		return nil
	}
}
