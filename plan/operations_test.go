package plan_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// TestEachRollbackHasItsTurn: more operations than one reconcile may finish cannot be rolled back. Over an hour of
// reconciles each is tried, whatever the interval.
func TestEachRollbackHasItsTurn(t *testing.T) {
	for _, c := range []struct{ stuck, most int }{{2, 1}, {10, 4}, {25, 20}} {
		for _, interval := range []time.Duration{time.Second, 10 * time.Second, 15 * time.Second} {
			now := time.Unix(1e9, 0)
			s := plan.Snapshot{Pools: []plan.Pool{{Name: "p", Max: c.stuck, Target: c.stuck, Size: c.stuck}}}
			for i := range c.stuck {
				s.Nodes = append(s.Nodes, plan.Node{
					Name: fmt.Sprint("n", i), Pool: "p", Created: now.Add(-time.Hour), Ready: true, CordonedBy: fmt.Sprint("op-", i),
					GPUs:      []plan.GPU{{Device: gpu.Device{Model: gpu.Model{Name: "H100-80GB", Vendor: "nvidia"}}, MIG: true}},
					Operation: &plan.Operation{ID: fmt.Sprint("op-", i), Phase: plan.PhaseFailed, Started: now.Add(-time.Hour), Deadline: now, Message: "in use"},
				})
			}
			p := plan.DefaultPolicy()
			p.MaxActionsPerReconcile = c.most
			tried := map[string]bool{}
			for at := time.Duration(0); at < time.Hour; at += interval {
				s.Now = now.Add(at)
				n := 0
				for _, a := range plan.Make(s, p).Actions {
					if a.Verb == plan.Rollback {
						tried[a.Node] = true
						n++
					}
				}
				if n != c.most {
					t.Fatalf("%d of %d each %s: %d rollbacks at once", c.most, c.stuck, interval, n)
				}
			}
			if len(tried) != c.stuck {
				t.Errorf("%d of %d each %s: only %d were ever tried", c.most, c.stuck, interval, len(tried))
			}
		}
	}
}

// TestFailuresOfWhatIsNotDone: if the actions on a node are dropped, its failures in this plan are dropped too.
func TestFailuresOfWhatIsNotDone(t *testing.T) {
	at := time.Unix(1e9, 0)
	one, two := plan.Failure{Count: 1, At: at}, plan.Failure{Count: 2, At: at.Add(time.Minute)}
	before := plan.State{Failures: map[string]plan.Failure{"n1": one, "n1/0": one, "n2/0": one, "gang a/g": one}}
	after := plan.State{Failures: map[string]plan.Failure{"n1": two, "n1/0": two, "n2/0": two, "gang a/g": two, "n1/1": two}}
	none := func(string) bool { return false }
	got := after.Without(before, none, func(name string) bool { return name == "n1" }).Failures
	want := map[string]plan.Failure{"n1": one, "n1/0": one, "n2/0": two, "gang a/g": two}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
