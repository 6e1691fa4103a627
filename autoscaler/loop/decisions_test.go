package loop

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

// TestLastDecisions: a pool's status lists its last actions, newest first and bounded; an
// action that fails every second is listed once; conditionLimited is written when it
// changes, not each reconcile.
func TestLastDecisions(t *testing.T) {
	c := cluster(t, named("p"))
	a := c.publisher()
	publish := func(after time.Duration, reason plan.Reason, results ...act.Result) v1alpha1.GPUNodePool {
		t.Helper()
		a.Publish(t.Context(), Reconcile{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(after), Pools: []plan.Pool{{Name: "p", Max: 4}}}},
			Plan:        plan.Plan{Verdicts: []plan.Verdict{{Kind: plan.KindPool, Subject: "p", Reason: reason, Detail: "for " + after.String()}}},
			Results:     results,
		})
		return c.pool()
	}
	scaleUp := func(to int) act.Result {
		return act.Result{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: to - 1, To: to, Reason: plan.NoFreeSlice, Detail: "a/b requests a GPU"}}
	}
	failure := act.Result{Outcome: act.Failed, Err: errors.New("no route"), Action: plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "n1", Reason: plan.NodeEmpty, Detail: strings.Repeat("é", 400)}}
	other := scaleUp(9)
	other.Action.Pool = "q"
	p := publish(0, plan.NoFreeSlice, scaleUp(1), other)
	if d := p.Status.LastDecisions; len(d) != 1 || d[0].Action != "scale-up" || d[0].Message != "0→1: a/b requests a GPU" || d[0].Failed {
		t.Errorf("decisions %+v", d)
	}
	for s := range 5 {
		p = publish(time.Duration(s+1)*time.Second, plan.NoFreeSlice, failure)
	}
	d := p.Status.LastDecisions
	if len(d) != 2 || !d[0].Failed || d[0].On != "n1" || !strings.Contains(d[0].Message, "no route") || len(d[0].Message) > maxDecisionMessage+4 {
		t.Errorf("decisions %+v", d)
	}
	for to := range 10 {
		p = publish(time.Duration(10+to)*time.Second, plan.PoolAtMax, scaleUp(to+2))
	}
	if d := p.Status.LastDecisions; len(d) != v1alpha1.MaxDecisions || d[0].Message != "10→11: a/b requests a GPU" {
		t.Errorf("decisions %+v", d)
	}
	limited := meta.FindStatusCondition(p.Status.Conditions, conditionLimited)
	if limited == nil || limited.Status != metav1.ConditionTrue || limited.Reason != "PoolAtMax" || limited.Message == "" {
		t.Errorf("condition %+v", limited)
	}
	publish(20*time.Second, plan.PoolAtMax) // the target is the snapshot's again
	before := c.writes
	publish(21*time.Second, plan.PoolAtMax)
	if c.writes != before {
		t.Error("a reconcile that decided nothing was written")
	}
	p = publish(22*time.Second, plan.Steady)
	if !meta.IsStatusConditionFalse(p.Status.Conditions, conditionLimited) {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
}

// TestOneEventPerPod: a pod that an action serves has one Event, with the detail of its
// verdict. A pod that cannot be served has one with the remedy, repeated after
// reportAgain.
func TestOneEventPerPod(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	}
	c := cluster(t, pod("served"), pod("refused"))
	a := c.publisher()
	publish := func(after time.Duration, results ...act.Result) {
		a.Publish(t.Context(), Reconcile{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(after)}},
			Plan: plan.Plan{Verdicts: []plan.Verdict{
				{Kind: plan.KindPod, Subject: "a/refused", Reason: plan.QuotaExceeded, Detail: "team-a 8/8 GPU guaranteed, 0 available, limit 8; requests 1 more"},
				{Kind: plan.KindPod, Subject: "a/served", Reason: plan.WaitUpcomingNode, Detail: "a new node of p, in 5m"},
			}}, Results: results,
		})
	}
	const refused = "Warning QuotaExceeded team-a 8/8 GPU guaranteed, 0 available, limit 8; requests 1 more. Raise the tenant's guarantee, limit or borrow limit, or end a workload of the tenant's."
	publish(0, act.Result{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2, Reason: plan.NoFreeSlice, Detail: "a/served requests a GPU", For: []string{"a/served"}}})
	c.recorded("Normal TriggeredScaleUp p 1→2, NoFreeSlice: a/served requests a GPU; a new node of p, in 5m", refused)
	publish(reportAgain - time.Second)
	c.recorded()
	publish(reportAgain)
	c.recorded(refused, "Normal WaitUpcomingNode a new node of p, in 5m")
}

// TestNotesAreShort: an Event's note has at most the API's bytes, and is valid UTF-8.
func TestNotesAreShort(t *testing.T) {
	for text, want := range map[string]int{"fits": 4, strings.Repeat("∞", 2000): 1024, "half a rune \xe2\x88": 15} {
		if got := short(text, maxNote); len(got) != want || !utf8.ValidString(got) {
			t.Errorf("%.20q: %d bytes, %q", text, len(got), got[max(0, len(got)-8):])
		}
	}
}
