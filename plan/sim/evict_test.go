package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// busy is a node whose two GPUs are allocated to two pods that may be moved,
// one at a time.
func busy() *World {
	budget := func(p plan.Pod) plan.Pod {
		p.Evictable, p.Node, p.Demand.GPUs = true, "n", 1
		p.Budgets = []plan.Budget{{Name: "a/b", Allowed: 1}}
		return p
	}
	gpus := []plan.GPU{{AllocationKnown: true, AllocatedTo: []string{"a/p"}, UnusedSince: time.Unix(1, 0)}, {AllocationKnown: true, AllocatedTo: []string{"a/q"}}}
	return &World{State: plan.Snapshot{
		Now:   time.Unix(1000, 0),
		Pools: []plan.Pool{{Name: "p", Max: 2, Target: 1, Size: 1, ReadyAfter: time.Minute}},
		Nodes: []plan.Node{{Name: "n", Pool: "p", Ready: true, GPUs: gpus}},
		Pods:  []plan.Pod{budget(plan.Pod{Namespace: "a", Name: "p"}), budget(plan.Pod{Namespace: "a", Name: "q"})},
	}}
}

func act(t *testing.T, w *World, a plan.Action) {
	t.Helper()
	if err := w.Apply(plan.Plan{Actions: []plan.Action{a}}); err != nil {
		t.Fatal(err)
	}
}

func TestReclaimedPodIsPendingAgain(t *testing.T) {
	w := busy()
	before := w.Snapshot()
	act(t, w, plan.Action{Verb: plan.Reclaim, Pod: "a/p", Node: "n"})
	p, c := w.State.Pods[0], w.State.Nodes[0].GPUs[0]
	if p.Node != "" || !p.Unschedulable || !p.PendingSince.Equal(w.State.Now) {
		t.Errorf("the pod is not back: %+v", p)
	}
	if len(c.AllocatedTo) > 0 || !c.UnusedSince.IsZero() || !c.IdleSince.Equal(w.State.Now) {
		t.Errorf("the GPU is not free: %+v", c)
	}
	if got := w.State.Pods[1].Budgets[0].Allowed; got != 0 {
		t.Errorf("the budget still allows %d", got)
	}
	if before.Pods[1].Budgets[0].Allowed != 1 || before.Pods[0].Node != "n" {
		t.Error("a snapshot changed with the world")
	}
	if w.Advance(0); w.State.Pods[0].Node != "n" || w.State.Pods[1].Budgets[0].Allowed != 1 {
		t.Errorf("it runs again, and its budget does not: %+v", w.State.Pods)
	}
}

// TestEvictionsAreRefused covers what an actuator must refuse.
func TestEvictionsAreRefused(t *testing.T) {
	reclaim := plan.Action{Verb: plan.Reclaim, Pod: "a/p"}
	drain := plan.Action{Verb: plan.Drain, Pool: "p", Node: "n", Reason: plan.NodeUnderused}
	for want, c := range map[string]struct {
		a      plan.Action
		change func(w *World)
	}{
		"applying reclaim of a/p: it is not evictable": {reclaim, func(w *World) { w.State.Pods[0].Evictable = false }},
		"for another 1m0s":                                 {reclaim, func(w *World) { w.State.Pods[0].EvictFrom = w.State.Now.Add(time.Minute) }},
		"exceeds the budget a/b":                           {reclaim, func(w *World) { w.State.Pods[0].Budgets[0].Allowed = 0 }},
		"is leaving already":                               {reclaim, func(w *World) { w.State.Pods[0].Leaving = true }},
		"runs nowhere":                                     {reclaim, func(w *World) { w.State.Pods[0].Node = "" }},
		"there is no such pod":                             {plan.Action{Verb: plan.Reclaim, Pod: "a/x"}, func(*World) {}},
		"does not run on m":                                {plan.Action{Verb: plan.Reclaim, Pod: "a/p", Node: "m"}, func(*World) {}},
		"applying drain of n: o is under way":              {drain, func(w *World) { w.State.Nodes[0].Operation = &plan.Operation{ID: "o"} }},
		"must not be removed":                              {drain, func(w *World) { w.State.Nodes[0].NoScaleDown = true }},
		"there is no such node in q":                       {plan.Action{Verb: plan.Drain, Pool: "q", Node: "n"}, func(*World) {}},
		"applying replace of n: a/p runs there":            {plan.Action{Verb: plan.Replace, Pool: "p", Node: "n"}, func(*World) {}},
		"applying remove-node of n: a/q runs there":        {plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "n"}, func(w *World) { w.RemovePod("a/p") }},
		"applying repartition of n: the node is being":     {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n"}, func(w *World) { w.State.Nodes[0].Drain = &plan.Draining{} }},
		"applying uncordon of n: it is not being drained":  {plan.Action{Verb: plan.Uncordon, Node: "n"}, func(*World) {}},
		"applying reclaim of a/d: it is not evictable":     {plan.Action{Verb: plan.Reclaim, Pod: "a/d"}, func(w *World) { w.State.Pods[0].Name, w.State.Pods[0].DaemonSet = "d", true }},
		"applying scale-up of none: there is no such pool": {plan.Action{Verb: plan.ScaleUp, Pool: "none", To: 1}, func(*World) {}},
		"max 2":            {plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}, func(*World) {}},
		"allocated to a/p": {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n"}, func(w *World) { w.State.Nodes[0].GPUs[0].Instances = []plan.Instance{{AllocatedTo: "a/p"}} }},
		"no GPU 7":         {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n", GPU: 7}, func(*World) {}},
		"does not know":    {plan.Action{Verb: "dance"}, func(*World) {}},
		"applying replace of n: there is no such node or p": {plan.Action{Verb: plan.Replace, Pool: "q", Node: "n"}, func(*World) {}},
	} {
		w := busy()
		c.change(w)
		err := w.Apply(plan.Plan{Actions: []plan.Action{c.a}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestDrain: as many pods as the budget allows are evicted at once; the next
// reconcile continues, and the empty node can be replaced.
func TestDrain(t *testing.T) {
	w := busy()
	drain := plan.Action{Verb: plan.Drain, Pool: "p", Node: "n", Reason: plan.NodeSick, Deadline: w.State.Now.Add(time.Hour)}
	fresh := w.Fingerprint()
	act(t, w, drain)
	n := &w.State.Nodes[0]
	if !n.Cordoned || n.Drain == nil || n.Drain.Reason != plan.NodeSick || !n.Drain.Deadline.Equal(drain.Deadline) || !n.Drain.Started.Equal(w.State.Now) {
		t.Fatalf("not drained: %+v", n)
	}
	if w.State.Pods[0].Node != "" || w.State.Pods[1].Node != "n" {
		t.Fatalf("one may leave: %+v", w.State.Pods)
	}
	half := w.Fingerprint()
	if fresh == half {
		t.Error("the fingerprint does not show a drain")
	}
	for i := range w.State.Pods { // another replica runs elsewhere
		w.State.Pods[i].Budgets[0].Allowed = 1
	}
	started := n.Drain.Started
	w.Advance(time.Minute)
	act(t, w, drain)
	if w.State.Pods[1].Node != "" || !w.State.Nodes[0].Drain.Started.Equal(started) {
		t.Fatalf("the drain does not go on: %+v", w.State.Pods[1])
	}
	act(t, w, plan.Action{Verb: plan.Replace, Pool: "p", Node: "n"})
	if p := w.State.Pools[0]; len(w.State.Nodes) != 0 || p.Target != 1 || p.Size != 0 {
		t.Fatalf("not gone, or not to be made again: %+v", p)
	}
	if w.Advance(59 * time.Second); len(w.State.Nodes) != 0 {
		t.Fatal("a new node comes too early")
	}
	events := w.Advance(time.Second)
	if len(w.State.Nodes) != 1 || w.State.Pools[0].Size != 1 || len(events) == 0 || events[0].Text != "p-1 is ready" {
		t.Fatalf("no new node: %v", events)
	}
}

func TestDrainIsGivenUp(t *testing.T) {
	w := busy()
	act(t, w, plan.Action{Verb: plan.Drain, Pool: "p", Node: "n", Reason: plan.NodeUnderused})
	act(t, w, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "n"})
	if n := w.State.Nodes[0]; n.Cordoned || n.Drain != nil {
		t.Errorf("still drained: %+v", n)
	}
	if events := w.Advance(0); len(events) != 1 || events[0].Text != "a/p runs on n/0" {
		t.Errorf("the pod does not come back: %v", events)
	}
}

// TestUncordonEndsOperation: a node that is drained stays so when an operation
// ends.
func TestUncordonEndsOperation(t *testing.T) {
	w := busy()
	n := &w.State.Nodes[0]
	n.Cordoned, n.CordonedBy, n.Drain = true, "o", &plan.Draining{}
	act(t, w, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "n", Operation: "o"})
	if !n.Cordoned || n.CordonedBy != "" || n.Drain == nil {
		t.Errorf("got %+v", n)
	}
}

func TestLeavingPodsGo(t *testing.T) {
	w := busy()
	w.State.Pods[0].Leaving, w.State.Pods[0].LeavesAt = true, w.State.Now.Add(30*time.Second)
	w.State.Pods[1].Leaving = true // the time is unknown
	if w.Advance(29 * time.Second); len(w.State.Pods) != 2 {
		t.Fatal("too early")
	}
	before := w.Fingerprint()
	events := w.Advance(time.Hour)
	if len(events) != 1 || events[0].Text != "a/p has left n" || len(w.State.Pods) != 1 {
		t.Fatalf("events %v", events)
	}
	if c := w.State.Nodes[0].GPUs[0]; len(c.AllocatedTo) > 0 || !c.IdleSince.Equal(time.Unix(1030, 0)) {
		t.Errorf("still allocated: %+v", c)
	}
	if before == w.Fingerprint() {
		t.Error("the fingerprint does not show who left")
	}
}

// TestAllocatedGPUIsNotRepartitioned: nor is one without MIG, which no instance
// shows to be allocated.
func TestAllocatedGPUIsNotRepartitioned(t *testing.T) {
	w := World{State: plan.Snapshot{
		Pools: []plan.Pool{{Name: "p"}},
		Nodes: []plan.Node{{Name: "n", Pool: "p", GPUs: []plan.GPU{{AllocatedTo: []string{"a/p"}}}}},
	}}
	err := w.Apply(plan.Plan{Actions: []plan.Action{{Verb: plan.Repartition, Node: "n", Pool: "p", Operation: "o"}}})
	if err == nil || !strings.Contains(err.Error(), "allocated to a/p") {
		t.Errorf("the repartition of an allocated GPU: %v", err)
	}
}
