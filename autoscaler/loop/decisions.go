package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// conditionLimited says whether something keeps a pool from giving what is wanted
// of it, as an HPA's condition of the same name does.
const conditionLimited = "ScalingLimited"

// limits are the reasons of a pool's verdict that keep it from growing.
var limits = []plan.Reason{plan.PoolAtMax, plan.BackingOff, plan.Frozen, plan.BoundReached, plan.TooManyUnready, plan.NodeSick}

// sameDecision is how long a decision that is taken again, and fails again, is
// not listed twice.
const sameDecision = 10 * time.Minute

// maxDecisionMessage bounds what a status keeps of a message, in bytes.
const maxDecisionMessage = 512

// decided writes what was done to a pool, newest first, and what limits it. The
// condition has no numbers in it, so that it is written when it changes only.
func decided(pool *v1alpha1.GPUNodePool, verdict plan.Verdict, results []act.Result, now time.Time) {
	status, reason := metav1.ConditionFalse, cmp.Or(string(verdict.Reason), "Unknown")
	message := "nothing keeps the pool from what is wanted of it"
	if slices.Contains(limits, verdict.Reason) {
		status, message = metav1.ConditionTrue, meaningOf(verdict.Reason)
	}
	setCondition(pool, conditionLimited, status, reason, message)
	list := slices.Clone(pool.Status.LastDecisions)
	for _, r := range results {
		if r.Action.Pool != pool.Name || r.Outcome != act.Done && r.Outcome != act.Failed {
			continue
		}
		d := decisionOf(r, now)
		if !slices.ContainsFunc(list, func(old v1alpha1.Decision) bool {
			return old.Action == d.Action && old.On == d.On && old.Reason == d.Reason && old.Failed && d.Failed && now.Sub(old.At.Time) < sameDecision
		}) {
			list = slices.Insert(list, 0, d)
		}
	}
	pool.Status.LastDecisions = list[:min(len(list), v1alpha1.MaxDecisions)]
}

func decisionOf(r act.Result, now time.Time) v1alpha1.Decision {
	a := r.Action
	d := v1alpha1.Decision{
		At: metav1.NewTime(now.Truncate(time.Second)), Action: string(a.Verb), On: cmp.Or(a.Pod, a.Node),
		Reason: string(a.Reason), Message: a.Detail, Failed: r.Outcome == act.Failed,
	}
	switch {
	case r.Err != nil:
		d.Message = fmt.Sprintf("%v; %s", r.Err, a.Detail)
	case a.Verb == plan.ScaleUp:
		d.Message = fmt.Sprintf("%d→%d: %s", a.From, a.To, a.Detail)
	}
	if len(d.Message) > maxDecisionMessage {
		d.Message = strings.ToValidUTF8(d.Message[:maxDecisionMessage], "") + " …"
	}
	return d
}

func meaningOf(reason plan.Reason) string {
	all := plan.Reasons()
	if i := slices.IndexFunc(all, func(d plan.ReasonDoc) bool { return d.Reason == reason }); i >= 0 {
		return all[i].Meaning
	}
	return string(reason)
}
