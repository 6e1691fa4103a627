package boards

import (
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Decisions follows a decision from the raw signal over the proposal and its limits to
// the outcome.
func Decisions() board.Board {
	return board.Board{
		UID: DecisionsUID, Title: "gpuscale / Decisions",
		About: "From the raw signal to the outcome: demand, proposals, blockers and their reasons, actions and their latency. Reasons are those of docs/reasons.md.",
		Vars:  append(where(), poolVar(metric.AutoscalerActions), namespaceVar(metric.AutoscalerHPAReplicas)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "1  Signal: demand", Panels: signals()},
			{Title: "2  Proposal: verdicts", Panels: proposals()},
			{Title: "3  Limiter: blockers", Panels: limiters()},
			{Title: "4  Outcome: actions", Panels: outcomes()},
		},
	}
}

// served are the verdicts on a pod that is being served.
var Served = []string{"Running", "WaitScheduler", "WaitUpcomingNode", "WaitRepartition", "WaitReclaim", "PodLeaving", "GangServed"}

func verdicts(kind string, matchers ...string) string {
	return board.Most(board.Of(metric.AutoscalerVerdicts, append([]string{board.Is(metric.LabelKind, kind)}, matchers...)...), metric.LabelReason)
}

func hpaSum(kind string) string {
	return board.Sum(board.Own(metric.AutoscalerHPAReplicas, board.Is(metric.LabelKind, kind)), metric.LabelNamespace, metric.LabelHPA)
}

func signals() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Slices requested by pending pods", W: 8, Unit: board.Number, Steps: true, Absent: noAutoscaler,
			Hues:  []board.Hue{{Name: "pending", Colour: board.Plain}, {Name: "unserved", Colour: board.Bad}},
			About: "Compute slices. The next two rows are about what is pending and unserved.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerPendingSlices)), Legend: "pending"},
				{Expr: board.Most(board.Of(metric.AutoscalerUnservedSlices)), Legend: "unserved"}}},
		{Kind: board.Table, Title: "HPAs", W: 8, Unit: board.Number, Absent: noHPA,
			About:   "Replicas of HPAs whose pods request GPUs. Desired above current: pods are starting or pending. Desired at max: the HPA is limited by its maximum.",
			Queries: []board.Query{{Expr: hpaSum("min")}, {Expr: hpaSum("current")}, {Expr: hpaSum("desired")}, {Expr: hpaSum("max")}},
			Columns: []board.Column{{Label: metric.LabelNamespace, Title: "Namespace", Link: &board.Link{Title: "Open the workload", UID: WorkloadUID, Set: map[string]string{"namespace": metric.LabelNamespace}}},
				{Label: metric.LabelHPA, Title: "HPA"}, {Value: 1, Title: "Min"}, {Value: 2, Title: "Current"}, {Value: 3, Title: "Desired", Sort: true}, {Value: 4, Title: "Max"}}},
		{Kind: board.Series, Title: "Forecast", W: 8, Unit: board.Number, Absent: "no workload is listed under forecasts, there is too little data, or " + noAutoscaler,
			About: "Forecast GPUs of the listed workloads: between low and high with 80 % probability.",
			Bands: []board.Band{{Low: "low", High: "high"}}, Hues: []board.Hue{{Name: "expected", Colour: board.Plain}, {Name: "low", Colour: board.Muted}, {Name: "high", Colour: board.Muted}},
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerForecastGPUs), metric.LabelKind), Legend: "{{kind}}"}}},
	}
}

func proposals() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Pods by verdict", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: "no pod that requests a GPU is pending, or " + noAutoscaler,
			About: "The last plan's verdict on each pod that requests GPUs; running ones are left out.", Queries: []board.Query{{Expr: verdicts("pod", `reason!="Running"`) + " > 0", Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Pools by verdict", W: 6, Unit: board.Count, Stack: true, Steps: true, Absent: noPool,
			About: "The last plan's verdict on each pool.", Queries: []board.Query{{Expr: verdicts("pool") + " > 0", Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Nodes by verdict", W: 6, Unit: board.Count, Stack: true, Steps: true, Absent: "there are no nodes, or " + noAutoscaler,
			About: "The last plan's verdict on each node.", Queries: []board.Query{{Expr: verdicts("node") + " > 0", Legend: "{{reason}}"}}},
	}
}

func limiters() []board.Panel {
	notServed := `reason!~"` + strings.Join(Served, "|") + `"`
	return []board.Panel{
		{Kind: board.Table, Title: "Unserved pods", W: 8, H: 6, Unit: board.Count, Absent: "every pod is served, or " + noAutoscaler,
			About:   "Pods by the reason of the last plan. gpuscale-autoscaler explain pod NAMESPACE/NAME shows what would have to change.",
			Queries: []board.Query{{Expr: verdicts("pod", notServed) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "Pods", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Table, Title: "Unserved GPUs", W: 8, H: 6, Unit: board.Number, Absent: "no demand is unserved, or " + noAutoscaler,
			About:   "The same, in GPUs, by the shape of one pod.",
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerPendingGPUs), metric.LabelShape, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelShape, Title: "Shape"}, {Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "GPUs", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Table, Title: "HPAs that are limited", W: 8, H: 6, Unit: board.Count, Absent: "no HPA is limited, or " + noAutoscaler,
			About:   "Reasons of the HPA's conditions. TooManyReplicas: it is at its max. FailedGet…: it has no value, and does not scale.",
			Queries: []board.Query{{Expr: board.Most(board.Own(metric.AutoscalerHPALimited), metric.LabelNamespace, metric.LabelHPA, metric.LabelReason)}},
			Columns: []board.Column{{Label: metric.LabelNamespace, Title: "Namespace"}, {Label: metric.LabelHPA, Title: "HPA"}, {Label: metric.LabelReason, Title: "Reason"},
				{Value: 1, Title: "State", Words: []board.Word{{Value: 1, Text: "limited", Colour: board.Warn}}}}},
	}
}

func outcomes() []board.Panel {
	actions := board.Of(metric.AutoscalerActions, inPool)
	return []board.Panel{
		{Kind: board.Table, Title: "Actions", W: 12, Unit: board.Count, Absent: notYet,
			About:   "Actions in the selected time, and their reasons. skipped: the cluster had changed before the action, and was planned again.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(actions, "$__range"), metric.LabelVerb, metric.LabelReason, metric.LabelResult) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelVerb, Title: "Action"}, {Label: metric.LabelReason, Title: "Reason"}, {Label: metric.LabelResult, Title: "Result"}, {Value: 1, Title: "Times", Sort: true}}},
		{Kind: board.Series, Title: "Actions over time", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: notYet,
			About:   "Actions in the time of one point, by verb and result.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(actions, "$__rate_interval"), metric.LabelVerb, metric.LabelResult), Legend: "{{verb}} {{result}}"}}},
		{Kind: board.Stat, Title: "Decision, median", W: 4, Unit: board.Seconds, Absent: notYet, About: "Time from when a pod was pending until the first action for it was carried out, over the selected time.",
			Queries: []board.Query{{Expr: board.Quantile(0.5, metric.AutoscalerDecisionSeconds, "$__range")}}},
		{Kind: board.Stat, Title: "Decision, p95", W: 4, Unit: board.Seconds, Absent: notYet, About: "95 of 100 decisions were carried out faster, over the selected time.",
			Scale: board.Rising(30, 120), Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AutoscalerDecisionSeconds, "$__range")}}},
		{Kind: board.Bars, Title: "Error of the forecasts", W: 16, H: 4, Unit: board.Percent, Scale: board.Rising(0.2, 0.5), Absent: "there is no forecast, or " + noAutoscaler,
			About:   "Mean error of each forecast when played over its own past, as a share of the mean.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerForecastError), metric.LabelWorkload), Legend: "{{workload}}"}}},
	}
}
