package boards

import (
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Decisions follows a decision from the raw signal over the proposal and what limits
// it to the outcome.
func Decisions() board.Board {
	return board.Board{
		UID: DecisionsUID, Title: "gpuscale / Decisions",
		About: "From the raw signal to the outcome: what is wanted, what is proposed, what stands in the way and why, what was done and how fast. The words are those of docs/reasons.md.",
		Vars:  append(where(), poolVar(metric.AutoscalerActions), namespaceVar(metric.AutoscalerHPAReplicas)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "1  Signal: what is wanted", Panels: signals()},
			{Title: "2  Proposal: what would be done about it", Panels: proposals()},
			{Title: "3  Limiter: what stands in the way", Panels: limiters()},
			{Title: "4  Outcome: what was done", Panels: outcomes()},
		},
	}
}

// Served are the verdicts on a pod that something is done or coming for.
var Served = []string{"Running", "WaitScheduler", "WaitUpcomingNode", "WaitRepartition", "WaitReclaim", "PodLeaving", "GangServed"}

func verdicts(kind string, matchers ...string) string {
	return board.Most(board.Of(metric.AutoscalerVerdicts, append([]string{board.Is(metric.LabelKind, kind)}, matchers...)...), metric.LabelReason)
}

func hpaSum(kind string) string {
	return board.Sum(board.Own(metric.AutoscalerHPAReplicas, board.Is(metric.LabelKind, kind)), metric.LabelNamespace, metric.LabelHPA)
}

func signals() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Slices wanted by pending pods", W: 8, Unit: board.Number, Steps: true, Absent: noAutoscaler,
			Hues:  []board.Hue{{Name: "pending", Colour: board.Plain}, {Name: "not served", Colour: board.Bad}},
			About: "Compute slices. What is pending and not served is what the next two rows are about.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerPendingSlices)), Legend: "pending"},
				{Expr: board.Most(board.Of(metric.AutoscalerUnservedSlices)), Legend: "not served"}}},
		{Kind: board.Table, Title: "HPAs", W: 8, Unit: board.Number, Absent: noHPA,
			About:   "Replicas of HPAs whose pods want GPUs. Desired above current: pods are on their way or wait. Desired at max: the HPA would go further if it might.",
			Queries: []board.Query{{Expr: hpaSum("min")}, {Expr: hpaSum("current")}, {Expr: hpaSum("desired")}, {Expr: hpaSum("max")}},
			Columns: []board.Column{{Label: metric.LabelNamespace, Title: "Namespace", Link: &board.Link{Title: "Open the workload", UID: WorkloadUID, Set: map[string]string{"namespace": metric.LabelNamespace}}},
				{Label: metric.LabelHPA, Title: "HPA"}, {Value: 1, Title: "Min"}, {Value: 2, Title: "Current"}, {Value: 3, Title: "Desired", Sort: true}, {Value: 4, Title: "Max"}}},
		{Kind: board.Series, Title: "Forecast", W: 8, Unit: board.Number, Absent: "no workload is listed under forecasts, there is too little to say, or " + noAutoscaler,
			About: "Cards that the listed workloads are expected to need: between low and high with four chances in five.",
			Bands: []board.Band{{Low: "low", High: "high"}}, Hues: []board.Hue{{Name: "expected", Colour: board.Plain}, {Name: "low", Colour: board.Quiet}, {Name: "high", Colour: board.Quiet}},
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerForecastGPUs), metric.LabelKind), Legend: "{{kind}}"}}},
	}
}

func proposals() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Pods by verdict", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: "no pod wants a GPU and waits, or " + noAutoscaler,
			About: "What the last plan says about each pod that wants GPUs; those that run are left out.", Queries: []board.Query{{Expr: verdicts("pod", `reason!="Running"`) + " > 0", Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Pools by verdict", W: 6, Unit: board.Count, Stack: true, Steps: true, Absent: noPool,
			About: "What the last plan says about each pool.", Queries: []board.Query{{Expr: verdicts("pool") + " > 0", Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Nodes by verdict", W: 6, Unit: board.Count, Stack: true, Steps: true, Absent: "there are no nodes, or " + noAutoscaler,
			About: "What the last plan says about each node.", Queries: []board.Query{{Expr: verdicts("node") + " > 0", Legend: "{{reason}}"}}},
	}
}

func limiters() []board.Panel {
	notServed := `reason!~"` + strings.Join(Served, "|") + `"`
	return []board.Panel{
		{Kind: board.Table, Title: "Pods that nothing is done for", W: 8, H: 6, Unit: board.Count, Absent: "something is done for every pod, or " + noAutoscaler,
			About:   "Pods by the reason of the last plan. gpuscale-autoscaler explain pod NAMESPACE/NAME says what would have to change.",
			Queries: []board.Query{{Expr: verdicts("pod", notServed) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "Pods", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Table, Title: "Cards that nothing is done for", W: 8, H: 6, Unit: board.Number, Absent: "nobody waits in vain, or " + noAutoscaler,
			About:   "The same, in cards, by what one pod asks for.",
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerWaitingGPUs), metric.LabelShape, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelShape, Title: "A pod asks for"}, {Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "Cards", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Table, Title: "HPAs that are limited", W: 8, H: 6, Unit: board.Count, Absent: "no HPA is limited, or " + noAutoscaler,
			About:   "In the HPA's own words. TooManyReplicas: it is at its max. FailedGet…: it has no number, and does nothing.",
			Queries: []board.Query{{Expr: board.Most(board.Own(metric.AutoscalerHPALimited), metric.LabelNamespace, metric.LabelHPA, metric.LabelReason)}},
			Columns: []board.Column{{Label: metric.LabelNamespace, Title: "Namespace"}, {Label: metric.LabelHPA, Title: "HPA"}, {Label: metric.LabelReason, Title: "Reason"},
				{Value: 1, Title: "State", Words: []board.Word{{Value: 1, Text: "limited", Colour: board.Warn}}}}},
	}
}

func outcomes() []board.Panel {
	actions := board.Of(metric.AutoscalerActions, inPool)
	return []board.Panel{
		{Kind: board.Table, Title: "Actions", W: 12, Unit: board.Count, Absent: notYet,
			About:   "What was done in the time looked at, and why. skipped: the world had changed before it could be done, and was planned anew.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(actions, "$__range"), metric.LabelVerb, metric.LabelReason, metric.LabelResult) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelVerb, Title: "Action"}, {Label: metric.LabelReason, Title: "Reason"}, {Label: metric.LabelResult, Title: "Result"}, {Value: 1, Title: "Times", Sort: true}}},
		{Kind: board.Series, Title: "Actions over time", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: notYet,
			About:   "Actions in the time of one point, by what was done and what came of it.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(actions, "$__rate_interval"), metric.LabelVerb, metric.LabelResult), Legend: "{{verb}} {{result}}"}}},
		{Kind: board.Stat, Title: "Decision, median", W: 4, Unit: board.Seconds, Absent: notYet, About: "Time from when a pod was pending until the first action for it was carried out, over the time looked at.",
			Queries: []board.Query{{Expr: board.Quantile(0.5, metric.AutoscalerDecisionSeconds, "$__range")}}},
		{Kind: board.Stat, Title: "Decision, p95", W: 4, Unit: board.Seconds, Absent: notYet, About: "95 of 100 decisions were carried out faster, over the time looked at.",
			Scale: board.Rising(30, 120), Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AutoscalerDecisionSeconds, "$__range")}}},
		{Kind: board.Bars, Title: "Error of the forecasts", W: 16, H: 4, Unit: board.Percent, Scale: board.Rising(0.2, 0.5), Absent: "there is no forecast, or " + noAutoscaler,
			About:   "Mean error of each forecast when played over its own past, as a share of the mean.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerForecastError), metric.LabelWorkload), Legend: "{{workload}}"}}},
	}
}
