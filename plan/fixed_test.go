package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/gpu"
)

// resizing lists the actions that scale a pool, or begin to.
func resizing(p Plan, pool string) []Action {
	var out []Action
	for _, a := range p.Actions {
		drains := a.Verb == Drain && a.Reason != NodeInterrupted
		if a.Pool == pool && (a.Verb == ScaleUp || a.Verb == RemoveNode || a.Verb == Replace || drains) {
			out = append(out, a)
		}
	}
	return out
}

// trouble gives a node reasons to scale its pool, several at a time.
func trouble(r *rapid.T, s *Snapshot, n *Node) {
	ago := func(d time.Duration) time.Time { return s.Now.Add(-d) }
	oneIn := func(n int, what string) bool { return rapid.IntRange(1, n).Draw(r, what) == n }
	if oneIn(2, "empty") {
		for c := range n.GPUs {
			n.GPUs[c].AllocatedTo, n.GPUs[c].IdleSince = nil, ago(time.Hour)
			for i := range n.GPUs[c].Instances {
				n.GPUs[c].Instances[i].AllocatedTo, n.GPUs[c].Instances[i].IdleSince = "", ago(time.Hour)
			}
		}
		s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.Node == n.Name })
		s.State.FreeSince = append(s.State.FreeSince, Stamp{n.Name, ago(time.Hour)})
	}
	if oneIn(2, "movable") {
		for i := range s.Pods {
			if p := &s.Pods[i]; p.Node == n.Name {
				p.Evictable, p.Budgets = true, nil
			}
		}
	}
	if oneIn(4, "sick") {
		n.GPUs[0].Health = gpu.Sick
		s.State.SickSince = append(s.State.SickSince, Stamp{n.Name, ago(time.Hour)})
	}
	if oneIn(4, "drained") { // its pool was not fixed then
		n.Cordoned, n.CordonedBy = true, "drain"
		n.Drain = &Draining{Started: ago(time.Minute), Deadline: s.Now.Add(time.Minute), Reason: rapid.SampledFrom([]Reason{NodeSick, NodeUnderused, NodeInterrupted}).Draw(r, "drain")}
	}
	if oneIn(3, "taken") {
		n.Cordoned, n.LeavesAt = true, s.Now.Add(2*time.Minute)
	}
	if oneIn(6, "unready") {
		n.Ready, n.Created = false, ago(rapid.SampledFrom([]time.Duration{0, 15 * time.Minute, 48 * time.Hour}).Draw(r, "age"))
	}
}

// TestFixedPoolsKeepTheirSize: whatever is pending, empty, sick, interrupted or
// being drained, a fixed pool is not scaled, and no verdict says that it is
// full or backs off. In some of the same worlds with other pools all of it
// happens.
func TestFixedPoolsKeepTheirSize(t *testing.T) {
	made := map[Verb]int{}
	rapid.Check(t, func(r *rapid.T) {
		s := smallWorld(t, r)
		if rapid.Bool().Draw(r, "quiet") { // pending pods and forecasts keep nodes
			s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.Node == "" })
			s.Forecasts = nil
		}
		p := DefaultPolicy()
		p.MaxUnready, p.MaxSickShare, p.MaxIdleAtOnce, p.MaxDrains = 1, 1, 1, 5
		for i := range s.Pools {
			q := &s.Pools[i]
			q.Min = max(0, rapid.IntRange(-q.Size-2, q.Size+2).Draw(r, "min"))
			q.Max = max(q.Max, q.Min)
		}
		for i := range s.Nodes {
			trouble(r, &s, &s.Nodes[i])
		}
		for _, pool := range s.Pools {
			for _, a := range resizing(Make(s, p), pool.Name) {
				made[a.Verb]++
			}
		}
		for i := range s.Pools {
			s.Pools[i].Fixed = true
		}
		plan := Make(s, p)
		for _, pool := range s.Pools {
			if all := resizing(plan, pool.Name); len(all) > 0 {
				r.Fatalf("%v", all)
			}
		}
		for _, v := range plan.Verdicts {
			if v.Reason == PoolAtMax || v.Reason == BackingOff || strings.Contains(v.Detail, string(PoolAtMax)) {
				r.Fatalf("of fixed pools only: %s", v)
			}
		}
	})
	for _, v := range []Verb{ScaleUp, RemoveNode, Replace, Drain} {
		if made[v] == 0 {
			t.Errorf("no %s in any of the worlds, fixed or not: they are too quiet to show anything", v)
		}
	}
}
