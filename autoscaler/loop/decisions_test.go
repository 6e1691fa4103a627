package loop

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

// TestLastDecisions: a pool's status lists what was done to it, newest first and
// not without end; what fails every second is listed once; what limits the pool is
// a condition, written when it changes and not each round.
func TestLastDecisions(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"))
	a := NewAnnouncer(c, record.NewFakeRecorder(100), slog.New(slog.DiscardHandler))
	publish := func(after time.Duration, reason plan.Reason, results ...act.Result) v1alpha1.GPUNodePool {
		t.Helper()
		a.Publish(t.Context(), Round{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(after), Pools: []plan.Pool{{Name: "p", Max: 4}}}},
			Plan:        plan.Plan{Verdicts: []plan.Verdict{{Kind: plan.KindPool, Subject: "p", Reason: reason, Detail: "for " + after.String()}}},
			Results:     results,
		})
		return getPool(t, c)
	}
	grows := func(to int) act.Result {
		return act.Result{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: to - 1, To: to, Reason: plan.NoFreeSlice, Detail: "a/b wants a card"}}
	}
	fails := act.Result{Outcome: act.Failed, Err: errors.New("no route"), Action: plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "n1", Reason: plan.NodeEmpty, Detail: strings.Repeat("é", 400)}}
	other := grows(9)
	other.Action.Pool = "q"
	p := publish(0, plan.NoFreeSlice, grows(1), other)
	if d := p.Status.LastDecisions; len(d) != 1 || d[0].Action != "scale-up" || d[0].Message != "0→1: a/b wants a card" || d[0].Failed {
		t.Errorf("decisions %+v", d)
	}
	for s := range 5 {
		p = publish(time.Duration(s+1)*time.Second, plan.NoFreeSlice, fails)
	}
	d := p.Status.LastDecisions
	if len(d) != 2 || !d[0].Failed || d[0].On != "n1" || !strings.Contains(d[0].Message, "no route") || len(d[0].Message) > maxDecisionMessage+4 {
		t.Errorf("decisions %+v", d)
	}
	for to := range 10 {
		p = publish(time.Duration(10+to)*time.Second, plan.PoolAtMax, grows(to+2))
	}
	if d := p.Status.LastDecisions; len(d) != v1alpha1.MaxDecisions || d[0].Message != "10→11: a/b wants a card" {
		t.Errorf("decisions %+v", d)
	}
	limited := meta.FindStatusCondition(p.Status.Conditions, conditionLimited)
	if limited == nil || limited.Status != metav1.ConditionTrue || limited.Reason != "PoolAtMax" || limited.Message == "" {
		t.Errorf("condition %+v", limited)
	}
	publish(20*time.Second, plan.PoolAtMax) // the target is what the observation says again
	before := writes
	publish(21*time.Second, plan.PoolAtMax)
	if writes != before {
		t.Error("a round that decided nothing was written")
	}
	p = publish(22*time.Second, plan.Steady)
	if !meta.IsStatusConditionFalse(p.Status.Conditions, conditionLimited) {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
}

// TestAPodHearsOneLine: whoever something is done for hears it once, with what it
// means for it; whoever waits for somebody hears what to ask for, and again after
// a while, since Events are forgotten.
func TestAPodHearsOneLine(t *testing.T) {
	writes := 0
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	}
	recorder := record.NewFakeRecorder(100)
	a := NewAnnouncer(cluster(t, &writes, pod("served"), pod("refused")), recorder, slog.New(slog.DiscardHandler))
	heard := func(after time.Duration, results ...act.Result) (all []string) {
		a.Publish(t.Context(), Round{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(after)}},
			Plan: plan.Plan{Verdicts: []plan.Verdict{
				{Kind: plan.KindPod, Subject: "a/refused", Reason: plan.QuotaExceeded, Detail: "team-a 8/8 GPU guaranteed, 0 to borrow, limit 8; wants 1 more"},
				{Kind: plan.KindPod, Subject: "a/served", Reason: plan.WaitUpcomingNode, Detail: "a new node of p, in 5m"},
			}}, Results: results,
		})
		for len(recorder.Events) > 0 {
			all = append(all, <-recorder.Events)
		}
		return all
	}
	first := heard(0, act.Result{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2, Reason: plan.NoFreeSlice, Detail: "a/served wants a card", For: []string{"a/served"}}})
	want := []string{
		"Normal TriggeredScaleUp p 1→2, NoFreeSlice: a/served wants a card; a new node of p, in 5m",
		"Warning QuotaExceeded team-a 8/8 GPU guaranteed, 0 to borrow, limit 8; wants 1 more. Raise the tenant's guarantee, limit or borrow limit, or end something of the tenant's.",
	}
	if strings.Join(first, "\n") != strings.Join(want, "\n") {
		t.Errorf("heard %q, want %q", first, want)
	}
	if again := heard(sayAgain - time.Second); len(again) != 0 {
		t.Errorf("heard again: %q", again)
	}
	if again := heard(sayAgain); len(again) != 2 {
		t.Errorf("after %s: %q", sayAgain, again)
	}
}
