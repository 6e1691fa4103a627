package scenario_test

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

const shared = `
policy max-evictions=1 max-drains=1 max-nodes-per-hour=3
tick grown=(p=2:at=10m p=9:at=1h)
pool p max=9 gpus=2 model=L40S
node n pool=p
gpu n/0 allocated-to=(a/first)
gpu n/1 allocated-to=(a/unknown)
node d pool=p draining=1m drain-deadline=9m drain-reason=NodeSick
node e pool=p
node s pool=p
quota t limit=1
pod a/first requests=gpu node=n tenant=t evictable budgets=(a/b:allowed=1)
pod a/fixed requests=gpu node=n
pod a/later requests=gpu node=n evictable evict-from=1m
pod a/moved requests=gpu node=e evictable budgets=(a/b:allowed=0)
pod a/stores requests=gpu node=s evictable local-storage
pod a/more requests=gpu tenant=t
pod a/g-{0..2} requests=gpu gang=a/g gang-min=3
`

// TestHarnessCatches breaks each rule of the harness once, by a handmade plan.
func TestHarnessCatches(t *testing.T) {
	s, p, err := scenario.Parse(shared)
	if err != nil {
		t.Fatal(err)
	}
	borrowed := plan.Action{Verb: plan.Reclaim, Pod: "a/first", Reason: plan.ReclaimBorrowed}
	reclaim := func(pod string) plan.Action { return plan.Action{Verb: plan.Reclaim, Pod: pod} }
	drain := func(node string) plan.Action { return plan.Action{Verb: plan.Drain, Pool: "p", Node: node} }
	forPods := func(pods ...string) plan.Action {
		return plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 3, To: 4, For: pods}
	}
	type check = func(plan.Snapshot, plan.Policy, plan.Plan) error
	for _, c := range []struct {
		check    check
		actions  []plan.Action
		verdicts []plan.Verdict
		want     string
	}{
		{evictsWithCare, []plan.Action{reclaim("a/fixed")}, nil, "is not evictable"},
		{evictsWithCare, []plan.Action{reclaim("a/later")}, nil, "would lose work"},
		{evictsWithCare, []plan.Action{reclaim("a/moved")}, nil, "budget a/b is overdrawn"},
		{evictsWithCare, []plan.Action{borrowed}, nil, "the policy does not"},
		{evictsWithCare, []plan.Action{reclaim("a/stores")}, nil, "has local storage"},
		{evictsWithCare, []plan.Action{reclaim("a/more")}, nil, "runs nowhere"},
		{drainsWithCare, []plan.Action{drain("e")}, nil, "2 drains, 1 may be"},
		{withinLimits, []plan.Action{forPods("a/more")}, nil, "tenant t takes"},
		{withinRates, []plan.Action{{Verb: plan.ScaleUp, Pool: "p", From: 3, To: 5}}, nil, "2 nodes added and 2 more"},
		{noHalfGang, []plan.Action{forPods("a/g-0", "a/g-1")}, nil, "2 are served"},
		{noHalfGang, nil, []plan.Verdict{{Kind: plan.KindPod, Subject: "a/g-0", Reason: plan.WaitReclaim}}, "1 are served"},
		{nothingForRefused, []plan.Action{forPods("a/more")},
			[]plan.Verdict{{Kind: plan.KindPod, Subject: "a/more", Reason: plan.QuotaExceeded}}, "which is refused"},
		{nothingAllocatedDestroyed, []plan.Action{{Verb: plan.Replace, Pool: "p", Node: "n"}}, nil, "removes a node that is allocated"},
		{nothingAllocatedDestroyed, []plan.Action{{Verb: plan.Replace, Pool: "p", Node: "e"}}, nil, "removes the node of a/moved"},
		{evictsWithCare, []plan.Action{reclaim("a/first")}, nil, "budget a/b is overdrawn"}, // the least that pods state for it
	} {
		err := c.check(s, p, plan.Plan{Actions: c.actions, Verdicts: c.verdicts})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	s.Nodes[1].Drain = nil // one more drain is allowed
	for node, want := range map[string]string{"n": "drains the node of a/fixed", "e": "", "s": "drains the node of a/stores"} {
		err := drainsWithCare(s, p, plan.Plan{Actions: []plan.Action{drain(node)}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("drain of %s: got %v, want %q", node, err, want)
		}
	}
}
