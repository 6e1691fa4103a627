package loop

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/plan"
)

// conditionLimited is true while a limit keeps a pool from meeting its demand, like
// the condition of the same name of an HPA.
const conditionLimited = "ScalingLimited"

// limits are the reasons of a pool's verdict that keep it from scaling up.
var limits = []plan.Reason{plan.PoolAtMax, plan.BackingOff, plan.Frozen, plan.BoundReached, plan.TooManyUnready, plan.NodeSick}

// sameDecision is how long the same failed decision is not listed again.
const sameDecision = 10 * time.Minute

// maxDecisionMessage bounds the message of a decision in the status, in bytes.
const maxDecisionMessage = 512

// setDecisions writes the pool's last actions, newest first, and conditionLimited. The
// condition's message has no numbers, so that it is rarely written.
func setDecisions(pool *v1alpha1.GPUNodePool, verdict plan.Verdict, results []act.Result, now time.Time) {
	status, reason := metav1.ConditionFalse, cmp.Or(string(verdict.Reason), "Unknown")
	message := "no limit keeps the pool from meeting its demand"
	if slices.Contains(limits, verdict.Reason) {
		status, message = metav1.ConditionTrue, explain.Meaning(verdict.Reason)
	}
	setCondition(pool, conditionLimited, status, reason, message)
	list := slices.Clone(pool.Status.LastDecisions)
	for _, r := range results {
		if r.Action.Pool != pool.Name || r.Outcome != act.Done && r.Outcome != act.Failed {
			continue
		}
		d := decisionOf(r, now)
		if !slices.ContainsFunc(list, func(old v1alpha1.Decision) bool {
			return old.Action == d.Action && old.On == d.On && old.Reason == d.Reason && old.Failed && d.Failed && now.Sub(old.Time.Time) < sameDecision
		}) {
			list = slices.Insert(list, 0, d)
		}
	}
	pool.Status.LastDecisions = list[:min(len(list), v1alpha1.MaxDecisions)]
}

func decisionOf(r act.Result, now time.Time) v1alpha1.Decision {
	a := r.Action
	d := v1alpha1.Decision{
		Time: metav1.NewTime(now.Truncate(time.Second)), Action: string(a.Verb), On: cmp.Or(a.Pod, a.Node),
		Reason: string(a.Reason), Message: a.Detail, Failed: r.Outcome == act.Failed,
	}
	switch {
	case r.Err != nil:
		d.Message = fmt.Sprintf("%v; %s", r.Err, a.Detail)
	case a.Verb == plan.ScaleUp:
		d.Message = fmt.Sprintf("%d→%d: %s", a.From, a.To, a.Detail)
	}
	d.Message = short(d.Message, maxDecisionMessage)
	return d
}
