package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

var half = mig.Placement{Profile: mig.Profile{Compute: 3, Memory: 4}, Start: 4}

func small() *World {
	held := plan.Card{MIG: true, HoldersKnown: true, Instances: []plan.Instance{{Placement: half, Placed: true, Holder: "a/p"}}}
	return &World{State: plan.Snapshot{
		Now:   time.Unix(1000, 0),
		Pools: []plan.Pool{{Name: "p", Max: 2, Target: 1, Size: 1, ReadyAfter: time.Minute}},
		Nodes: []plan.Node{{Name: "n", Pool: "p", Ready: true, Cards: []plan.Card{held}}},
		Pods:  []plan.Pod{{Namespace: "a", Name: "p", Node: "n"}},
	}}
}

// TestApplyRefuses: the world is as strict as an actuator has to be.
func TestApplyRefuses(t *testing.T) {
	for want, a := range map[string]plan.Action{
		"max 2":              {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3},
		"held by a/p":        {Verb: plan.Repartition, Pool: "p", Node: "n"},
		"a/p runs there":     {Verb: plan.RemoveNode, Pool: "p", Node: "n"},
		"no such node":       {Verb: plan.Uncordon, Node: "m"},
		"no card 7":          {Verb: plan.Repartition, Pool: "p", Node: "n", Card: 7},
		"does not know":      {Verb: "dance"},
		"no such pool":       {Verb: plan.ScaleUp, Pool: "q", To: 1},
		"there is no such n": {Verb: plan.RemoveNode, Pool: "p", Node: "m"},
	} {
		err := small().Apply(plan.Plan{Actions: []plan.Action{a}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of %s%s: got %v, want %q", a.Verb, a.Pool, a.Node, err, want)
		}
	}
}

func TestSnapshotSharesNothing(t *testing.T) {
	w := small()
	s := w.Snapshot()
	w.RemovePod("a/p")
	if len(s.Pods) != 1 || s.Nodes[0].Cards[0].Instances[0].Holder != "a/p" {
		t.Error("the snapshot changed with the world")
	}
	if in := w.State.Nodes[0].Cards[0].Instances[0]; in.Holder != "" || !in.IdleSince.Equal(w.State.Now) {
		t.Errorf("not released: %+v", in)
	}
}

func TestNodesComeWhenTheyAreReady(t *testing.T) {
	w := small()
	if err := w.Apply(plan.Plan{Actions: []plan.Action{{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}}}); err != nil {
		t.Fatal(err)
	}
	if w.Advance(59 * time.Second); len(w.State.Nodes) != 1 || !w.Waiting() {
		t.Fatal("too early")
	}
	if events := w.Advance(time.Second); len(w.State.Nodes) != 2 || len(events) != 1 || w.Waiting() {
		t.Fatalf("events %v", events)
	}
}
