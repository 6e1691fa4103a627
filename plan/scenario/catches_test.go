package scenario_test

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

const shared = `
policy max-evictions=1 max-drains=1 max-nodes-per-hour=3
tick grown=(p=2:at=10m p=9:at=1h)
pool p max=9 gpus=2 model=L40S
node n pool=p
node e pool=p
gpu n/0 allocated-to=(a/first)
gpu e/0 allocated-to=(a/gone)
node f pool=p
node d pool=p draining=1m drain-deadline=9m drain-reason=NodeSick
node s pool=p
quota t limit=1
pod a/first requests=gpu node=n tenant=t evictable
pod a/fixed requests=gpu node=n
pod a/moved requests=gpu node=e evictable
pod a/stores requests=gpu node=s evictable local-storage
pod a/more requests=gpu tenant=t
pod a/g-{0..2} requests=gpu gang=a/g gang-min=3
`

// TestHarnessCatches breaks each rule of the harness once, by a handmade plan.
func TestHarnessCatches(t *testing.T) {
	s, p, err := scenario.Parse(shared)
	require.NoError(t, err)
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
		{evictsWithCare, []plan.Action{borrowed}, nil, "the policy does not"},
		{evictsWithCare, []plan.Action{reclaim("a/stores")}, nil, "has local storage"},
		{evictsWithCare, []plan.Action{reclaim("a/first"), reclaim("a/first")}, nil, "2 evictions"},
		{withinBounds, []plan.Action{drain("n"), {Verb: plan.Repartition, Pool: "p", Node: "n"}}, nil, "two actions on node n"},
		{withinBounds, []plan.Action{{Verb: plan.Reclaim, Pod: "a/first", Node: "n"}, {Verb: plan.Repartition, Pool: "p", Node: "n"}}, nil, "two actions on node n"},
		{nothingLeft, []plan.Action{reclaim("a/fixed")}, nil, "is not evictable"}, // what the simulator refuses
		{drainsWithCare, []plan.Action{drain("e")}, nil, "2 drains, 1 may be"},
		{withinLimits, []plan.Action{forPods("a/more")}, nil, "tenant t takes"},
		{withinRates, []plan.Action{{Verb: plan.ScaleUp, Pool: "p", From: 3, To: 5}}, nil, "2 nodes added and 2 more"},
		{noHalfGang, []plan.Action{forPods("a/g-0", "a/g-1")}, nil, "2 are served"},
		{noHalfGang, nil, []plan.Verdict{{Kind: plan.KindPod, Subject: "a/g-0", Reason: plan.WaitReclaim}}, "1 are served"},
		{nothingForRefused, []plan.Action{forPods("a/more")},
			[]plan.Verdict{{Kind: plan.KindPod, Subject: "a/more", Reason: plan.QuotaExceeded}}, "which is refused"},
	} {
		err := c.check(s, p, plan.Plan{Actions: c.actions, Verdicts: c.verdicts})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	s.Nodes[3].Drain = nil // one more drain is allowed
	for node, want := range map[string]string{"n": "drains the node of a/fixed", "e": "drains a node allocated to a/gone", "s": "drains the node of a/stores", "f": ""} {
		err := drainsWithCare(s, p, plan.Plan{Actions: []plan.Action{drain(node)}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("drain of %s: got %v, want %q", node, err, want)
		}
	}
}
