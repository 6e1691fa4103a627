package sim

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// one is a world with a pool of one-GPU nodes and a pod that requests one.
func one() *World {
	w := empty(1)
	n := w.State.Nodes[0]
	w.State.Nodes = nil
	w.State.Pools = []plan.Pool{{Name: "a", Max: 9, ReadyAfter: 3 * time.Minute,
		Template: plan.Template{CPUMilli: 4000, GPUs: n.GPUs[:1]}}}
	w.request("p", demand.Demand{GPUs: 1}, func(*plan.Pod) {})
	return w
}

func (w *World) scaleTo(t *testing.T, verb plan.Verb, to int) {
	t.Helper()
	require.NoError(t, w.Apply(plan.Plan{Actions: []plan.Action{{Verb: verb, Pool: "a", From: w.State.Pools[0].Target, To: to}}}))
}

// A node that never registers counts until it is given up 15 minutes after the request, or until it is withdrawn. A
// withdrawn one is not given up again.
func TestLostNode(t *testing.T) {
	for _, withdraw := range []bool{false, true} {
		w := one()
		lost := 1
		w.Lost = func() bool { lost--; return lost >= 0 }
		w.scaleTo(t, plan.ScaleUp, 2)
		w.Advance(3 * time.Minute)
		if p := w.State.Pools[0]; p.Size != 1 || p.Target != 2 || w.where()["p"] != "a-1" {
			t.Fatalf("after the boot: %+v, %v: want one of two nodes", p, w.where())
		}
		if withdraw {
			w.scaleTo(t, plan.Withdraw, 1)
		}
		w.Advance(11 * time.Minute)
		if p := w.State.Pools[0]; p.Target != 2 && !withdraw {
			t.Errorf("given up before its time: %+v", p)
		}
		w.Advance(time.Minute)
		if p := w.State.Pools[0]; p.Size != 1 || p.Target != 1 {
			t.Errorf("withdrawn %v: %+v: want one node, and one requested", withdraw, p)
		}
	}
}

// A withdrawn node does not come, even if it would have come.
func TestWithdrawnNode(t *testing.T) {
	w := one()
	w.scaleTo(t, plan.ScaleUp, 1)
	w.scaleTo(t, plan.Withdraw, 0)
	w.Advance(time.Hour)
	if len(w.State.Nodes) > 0 || w.State.Pools[0].Size != 0 {
		t.Errorf("it came all the same: %+v", w.State.Nodes)
	}
}

// An interrupted node is cordoned until the end of its notice. Then it is gone with its pods, evictable or not.
func TestInterruptedNode(t *testing.T) {
	w := one()
	w.Interrupted = func() time.Duration { return time.Hour }
	w.scaleTo(t, plan.ScaleUp, 1)
	w.Advance(3*time.Minute + time.Hour)
	n := w.State.Nodes[0]
	if !n.Cordoned || n.LeavesAt.Sub(w.State.Now) != 2*time.Minute || w.where()["p"] != "a-1" {
		t.Fatalf("%+v: want it cordoned, leaving in two minutes, its pod still there", n)
	}
	w.Advance(2 * time.Minute)
	if p := w.State.Pools[0]; len(w.State.Nodes) > 0 || p.Size != 0 || p.Target != 0 || w.where()["p"] != "" {
		t.Errorf("%+v, %v: want no node, and the pod pending", p, w.where())
	}
}

// A pod that is leaving an interrupted node ends with it: it already has a successor, or needs none.
func TestInterruptedNodeWithLeavingPod(t *testing.T) {
	w := one()
	w.Interrupted = func() time.Duration { return time.Hour }
	w.Evicted = func(p *plan.Pod) { t.Errorf("%s is evicted", p.Key()) }
	w.scaleTo(t, plan.ScaleUp, 1)
	w.Advance(3*time.Minute + time.Hour)
	w.State.Pods[0].Leaving, w.State.Pods[0].LeavesAt = true, w.State.Now.Add(time.Hour)
	w.Advance(2 * time.Minute)
	if len(w.State.Nodes) > 0 || len(w.State.Pods) > 0 {
		t.Errorf("nodes %+v, pods %+v: want none", w.State.Nodes, w.State.Pods)
	}
}
