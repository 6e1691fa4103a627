package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/require"
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
	require.NoError(t, w.Apply(plan.Plan{Actions: []plan.Action{a}}))
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
		"for another 1m0s":                                {reclaim, func(w *World) { w.State.Pods[0].EvictFrom = w.State.Now.Add(time.Minute) }},
		"exceeds the budget a/b":                          {reclaim, func(w *World) { w.State.Pods[0].Budgets[0].Allowed = 0 }},
		"is leaving already":                              {reclaim, func(w *World) { w.State.Pods[0].Leaving = true }},
		"runs nowhere":                                    {reclaim, func(w *World) { w.State.Pods[0].Node = "" }},
		"there is no such pod":                            {plan.Action{Verb: plan.Reclaim, Pod: "a/x"}, func(*World) {}},
		"does not run on m":                               {plan.Action{Verb: plan.Reclaim, Pod: "a/p", Node: "m"}, func(*World) {}},
		"applying drain of n: o is under way":             {drain, func(w *World) { w.State.Nodes[0].Operation = &plan.Operation{ID: "o"} }},
		"must not be removed":                             {drain, func(w *World) { w.State.Nodes[0].NoScaleDown = true }},
		"applying drain of n: there is no such node in q": {plan.Action{Verb: plan.Drain, Pool: "q", Node: "n"}, func(*World) {}},
		"applying replace of n: a/p runs there":           {plan.Action{Verb: plan.Replace, Pool: "p", Node: "n"}, func(*World) {}},
		"applying remove-node of n: a/q runs there":       {plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "n"}, func(w *World) { w.RemovePod("a/p") }},
		"applying repartition of n: the node is being":    {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n"}, func(w *World) { w.State.Nodes[0].Drain = &plan.Draining{} }},
		"applying uncordon of n: it is not being drained": {plan.Action{Verb: plan.Uncordon, Node: "n"}, func(*World) {}},
		"applying reclaim of a/d: it is not evictable":    {plan.Action{Verb: plan.Reclaim, Pod: "a/d"}, func(w *World) { w.State.Pods[0].Name, w.State.Pods[0].DaemonSet = "d", true }},
		"in none, or no such pool":                        {plan.Action{Verb: plan.ScaleUp, Pool: "none", To: 1}, func(*World) {}},
		"max 2":                                           {plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}, func(*World) {}},
		"allocated to a/p":                                {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n"}, func(w *World) { w.State.Nodes[0].GPUs[0].Instances = []plan.Instance{{AllocatedTo: "a/p"}} }},
		"GPU 0 is allocated to a/p":                       {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n"}, func(*World) {}}, // without MIG no instance shows it
		"GPU 1 is unknown":                                {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n", GPU: 1}, func(w *World) { w.State.Nodes[0].GPUs = []plan.GPU{{Device: gpu.Device{Index: 1}}} }},
		"GPU 0 is allocated, or":                          {plan.Action{Verb: plan.Replace, Pool: "p", Node: "n"}, func(w *World) { w.State.Pods = nil }},
		"its allocation is unknown":                       {plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "n"}, func(w *World) { w.State.Pods, w.State.Nodes[0].GPUs = nil, []plan.GPU{{}} }},
		"budget a/c": {reclaim, func(w *World) { // the least that pods state
			w.State.Pods[0].Budgets, w.State.Pods[1].Budgets = []plan.Budget{{Name: "a/c", Allowed: 1}}, []plan.Budget{{Name: "a/c"}}
		}},
		"no GPU 7":      {plan.Action{Verb: plan.Repartition, Pool: "p", Node: "n", GPU: 7}, func(*World) {}},
		"does not know": {plan.Action{Verb: "dance", Pool: "p", Node: "n"}, func(*World) {}},
		"applying replace of n: there is no such node in q": {plan.Action{Verb: plan.Replace, Pool: "q", Node: "n"}, func(*World) {}},
	} {
		w := busy()
		c.change(w)
		err := w.Apply(plan.Plan{Actions: []plan.Action{c.a}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestUncordonEndsOperation: a drained node stays cordoned when an operation ends.
func TestUncordonEndsOperation(t *testing.T) {
	w := busy()
	n := &w.State.Nodes[0]
	n.Cordoned, n.CordonedBy, n.Drain = true, "o", &plan.Draining{}
	act(t, w, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "n", Operation: "o"})
	if !n.Cordoned || n.CordonedBy != "" || n.Drain == nil {
		t.Errorf("got %+v", n)
	}
}

// TestUncordonOfInterruptedNode: an interrupted node stays cordoned when an operation or a drain ends.
func TestUncordonOfInterruptedNode(t *testing.T) {
	for _, operation := range []string{"o", ""} {
		w := busy()
		n := &w.State.Nodes[0]
		n.Cordoned, n.CordonedBy, n.LeavesAt = true, operation, w.State.Now.Add(time.Minute)
		if operation == "" {
			n.Drain = &plan.Draining{}
		}
		act(t, w, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "n", Operation: operation})
		if !n.Cordoned || n.CordonedBy != "" || n.Drain != nil {
			t.Errorf("operation %q: got %+v", operation, n)
		}
	}
}

// TestStateIsShown: a fingerprint shows a drain and the leaving pods, and a snapshot does not change with the world.
func TestStateIsShown(t *testing.T) {
	w := busy()
	fresh, before := w.Fingerprint(), w.Snapshot()
	act(t, w, plan.Action{Verb: plan.Drain, Pool: "p", Node: "n", Reason: plan.NodeSick})
	drained := w.Fingerprint()
	w.State.Pods[1].Leaving = true
	if fresh == drained || drained == w.Fingerprint() {
		t.Error("the fingerprint does not show a drain, or who leaves")
	}
	if before.Pods[1].Budgets[0].Allowed != 1 || before.Pods[0].Node != "n" || before.Nodes[0].Drain != nil {
		t.Error("a snapshot changed with the world")
	}
}
