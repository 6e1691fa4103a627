package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

func demand() []board.Panel {
	return []board.Panel{
		{Kind: board.Table, Title: "Unserved GPUs", W: 8, Unit: board.Number,
			About:   "GPUs that pending pods request, by the shape of one pod and by reason. docs/reasons.md says what to do about each reason.",
			Absent:  "no demand is unserved, or " + noAutoscaler,
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerPendingGPUs), metric.LabelShape, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelShape, Title: "Shape"}, {Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "GPUs", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Series, Title: "Slices requested", W: 8, Unit: board.Number, Steps: true,
			About:  "Compute slices that pending pods request, and those that neither present nor upcoming nodes have.",
			Absent: noAutoscaler,
			Hues:   []board.Hue{{Name: "pending", Colour: board.Plain}, {Name: "unserved", Colour: board.Bad}},
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerPendingSlices)), Legend: "pending"},
				{Expr: board.Most(board.Of(metric.AutoscalerUnservedSlices)), Legend: "unserved"}}},
		{Kind: board.Series, Title: "Unusable, by cause", W: 8, Stack: true, Steps: true, Unit: board.Number,
			About:   "Free GPUs that no pending pod can use. odd, unpartitioned, shape and scattered: another MIG layout, or another placement of the same pods, would help. unreachable, no_cpu and no_memory: the node prevents it.",
			Absent:  noAutoscaler,
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerStrandedGPUs, inPool), metric.LabelCause), Legend: "{{cause}}"}}},
		{Kind: board.Series, Title: "Pods by verdict", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: "no pod that requests a GPU is pending, or " + noAutoscaler,
			About: "What the last plan decided about each pod that requests GPUs; running pods are not shown.", Queries: []board.Query{{Expr: verdicts("pod", `reason!="Running"`) + " > 0", Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Forecast", W: 12, Unit: board.Number, Absent: "the configuration lists no workload under forecasts, there is too little data, or " + noAutoscaler,
			About: "GPUs that the workloads with a forecast are expected to need: between low and high with 80 % probability.",
			Bands: []board.Band{{Low: "low", High: "high"}}, Hues: []board.Hue{{Name: "expected", Colour: board.Plain}, {Name: "low", Colour: board.Muted}, {Name: "high", Colour: board.Muted}},
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerForecastGPUs), metric.LabelKind), Legend: "{{kind}}"}}},
	}
}

func verdicts(kind string, matchers ...string) string {
	return board.Most(board.Of(metric.AutoscalerVerdicts, append([]string{board.Is(metric.LabelKind, kind)}, matchers...)...), metric.LabelReason)
}

const noPool = "no pool is known, or " + noAutoscaler

func nodes(kind string) string {
	return board.Sum(board.Of(metric.AutoscalerPoolSize, inPool, board.Is(metric.LabelKind, kind)), metric.LabelPool)
}

// poolTable has each pool's size, provider and cost.
func poolTable() board.Panel {
	of := func(d metric.Desc) string { return board.Most(board.Of(d, inPool), metric.LabelPool) }
	return board.Panel{Kind: board.Table, Title: "Pools", H: 6, Unit: board.Number, Absent: "the pool does not set it, or " + noPool,
		About: "Target: nodes that the autoscaler requested from the provider. Nodes: nodes that exist. Ready: nodes that are ready.",
	}.With(board.Column{Label: metric.LabelPool, Title: "Node pool", Width: 200},
		board.Column{Expr: nodes("min"), Title: "Min"}, board.Column{Expr: nodes("max"), Title: "Max"}, board.Column{Expr: nodes("target"), Title: "Target"},
		board.Column{Expr: nodes("size"), Title: "Nodes", Sort: true}, board.Column{Expr: nodes("ready"), Title: "Ready"},
		board.Column{Expr: nodes("unready"), Title: "Unready", Scale: from(1, board.Bad)}, board.Column{Expr: nodes("upcoming"), Title: "Upcoming"},
		board.Column{Expr: of(metric.AutoscalerPoolBackoff), Title: "Provider", Words: board.YesNo("backing off", board.Bad, "ok", board.Good)},
		board.Column{Expr: of(metric.AutoscalerFrozen), Title: "Frozen", Words: board.YesNo("frozen", board.Watch, "no", board.Ink)},
		board.Column{Expr: of(metric.AutoscalerPoolPrice), Title: "Node price, h", Unit: board.Number},
		board.Column{Expr: board.Sum(board.Of(metric.AutoscalerCost, inPool), metric.LabelPool), Title: "Cost, h", Unit: board.Number})
}

func pools() []board.Panel {
	return []board.Panel{
		poolTable(),
		{Kind: board.Series, Title: "Nodes ready and requested", Unit: board.Number, Steps: true, Absent: noPool,
			About: "While the target is above ready, nodes are starting, or fail to start.",
			Queries: []board.Query{{Expr: nodes("target"), Legend: "{{pool}} target"}, {Expr: nodes("ready"), Legend: "{{pool}} ready"},
				{Expr: nodes("max"), Legend: "{{pool}} max"}}},
		{Kind: board.Bars, Title: "Request to ready", W: 12, Unit: board.Seconds, Absent: "no node was added in this time, or " + noAutoscaler, Scale: board.Scale{{Colour: board.Plain}},
			About: "Time from the request for a node until it was ready and offered its GPUs, in the selected time.", Queries: []board.Query{{Expr: board.Quantile(0.5, metric.AutoscalerNodeReady, []string{inPool}, "$__range", metric.LabelPool), Legend: "{{pool}} median"},
				{Expr: board.Quantile(0.95, metric.AutoscalerNodeReady, []string{inPool}, "$__range", metric.LabelPool), Legend: "{{pool}} p95"}}},
		{Kind: board.Table, Title: "What failed", W: 12, Unit: board.Count, Absent: "nothing failed in this time, or " + noAutoscaler,
			About:   "Failed actions on a pool, by reason. NothingCame: the autoscaler requested nodes, and none came.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerPoolFailures, inPool), "$__range"), metric.LabelPool, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelPool, Title: "Node pool"}, {Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "Times", Sort: true, Scale: board.Scale{{Colour: board.Bad}}}}},
		{Kind: board.Table, Title: "Nodes interrupted", W: 12, Unit: board.Count, Absent: "no node was interrupted in this time, or " + noAutoscaler,
			About:   "Nodes for which the provider gave notice: spot interruptions and planned maintenance.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerInterruptions, inPool), "$__range"), metric.LabelPool) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelPool, Title: "Node pool"}, {Value: 1, Title: "Times", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
	}
}

func actions() []board.Panel {
	cost := board.Of(metric.AutoscalerCost, inPool)
	// Pools without a price have no cost series, so the product has no row for them.
	working := board.Share(spent([]string{metric.LabelPool}, "busy"), capacity(metric.LabelPool))
	return []board.Panel{
		{Kind: board.Table, Title: "Actions", W: 12, Unit: board.Number, Absent: notYet,
			About: "Actions in the selected time, and their reasons. skipped: the cluster had changed before the action, so the autoscaler planned again.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerActions, inPool), "$__range"),
				metric.LabelVerb, metric.LabelPool, metric.LabelReason, metric.LabelResult) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelVerb, Title: "Action"}, {Label: metric.LabelPool, Title: "Node pool"}, {Label: metric.LabelReason, Title: "Reason"},
				{Label: metric.LabelResult, Title: "Result"}, {Value: 1, Title: "Times", Unit: board.Count, Sort: true}}},
		{Kind: board.Series, Title: "Actions over time", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: notYet,
			About:   "Actions in the interval of each point, by verb and result.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerActions, inPool), "$__rate_interval"), metric.LabelVerb, metric.LabelResult), Legend: "{{verb}} {{result}}"}}},
		{Kind: board.Stat, Title: "Decision, p95", W: 4, H: 8, Unit: board.Seconds, Absent: notYet, About: "95 % of decisions in the selected time were carried out faster than this.",
			Scale: board.Rising(30, 120), Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AutoscalerDecisionSeconds, nil, "$__range")}}},
		{Kind: board.Stat, Title: "Hourly cost", W: 4, H: 8, Unit: board.Number, Absent: noPrice, Queries: []board.Query{{Expr: board.Sum(cost)}},
			About: "Cost of the existing nodes per hour, in the currency of the pools' prices."},
		{Kind: board.Stat, Title: "Hourly cost of not computing", W: 4, H: 8, Unit: board.Number, Scale: board.Scale{{Colour: board.Ink}}, Absent: noPrice + " Or " + noAutoscaler + noRules,
			About:   "Cost per hour times the share of GPU time in which GPUs did not compute, summed over the pools.",
			Queries: []board.Query{{Expr: "sum(" + board.Sum(cost, metric.LabelPool) + " * (1 - " + working + "))"}}},
		{Kind: board.Series, Title: "Hourly cost by pool", W: 12, Unit: board.Number, Stack: true, Steps: true, Absent: noPrice,
			About:   "Cost of the existing nodes per hour.",
			Queries: []board.Query{{Expr: board.Sum(cost, metric.LabelPool), Legend: "{{pool}}"}}},
	}
}

func programs() []board.Panel {
	return []board.Panel{
		tiles("Recording rules", aboutRules, board.Watch,
			source{"fleet", recorded("pool:gpuscale_capacity_gpu_seconds:rate5m")}, source{"tenants", recorded("namespace:gpuscale_gpu_seconds:rate5m")}),
		{Kind: board.Stat, Title: "Leaders", W: 4, H: 8, Unit: board.Count, Absent: noAutoscaler, Scale: board.Scale{{Colour: board.Bad}, {From: 1, Colour: board.Good}, {From: 2, Colour: board.Bad}},
			About: "Replicas that lead. There must be exactly one.", Queries: []board.Query{{Expr: "sum(" + board.Of(metric.AutoscalerLeader) + ")"}}},
		{Kind: board.Stat, Title: "Last reconcile", W: 4, H: 8, Unit: board.Seconds, Absent: "no reconcile has succeeded, or " + noAutoscaler, Scale: board.Rising(60, 180),
			About: "Time since the last successful reconcile (observe, plan, act).", Queries: []board.Query{{Expr: "time() - max(" + board.Of(metric.AutoscalerReconcileAge) + ")"}}},
		{Kind: board.Series, Title: "Age of the plan's input", W: 8, Unit: board.Seconds, Absent: "nothing of this kind was read, or " + noAutoscaler,
			About:   "Time since the data was read. cluster: from the API server. prometheus: from Prometheus.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerSnapshotAge), metric.LabelKind), Legend: "{{kind}}"}}},
		{Kind: board.Series, Title: "Reconciles", W: 8, Unit: board.PerSec, Absent: noAutoscaler, Hues: []board.Hue{{Name: "ok", Colour: board.Good}, {Name: "error", Colour: board.Bad}},
			About: "Reconciles per second, by result.", Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AutoscalerReconciles)), metric.LabelResult), Legend: "{{result}}"}}},
		{Kind: board.Series, Title: "Queries to Prometheus", W: 8, Unit: board.PerSec, Absent: noAdapter, Hues: []board.Hue{{Name: "ok", Colour: board.Good}, {Name: "error", Colour: board.Bad}, {Name: "partial", Colour: board.Watch}},
			About: "Queries of the adapter per second, by result. partial: the backend reported missing data.", Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AdapterQueries)), metric.LabelResult), Legend: "{{result}}"}}},
		{Kind: board.Series, Title: "Answers to HPAs", W: 8, Unit: board.PerSec, Stack: true, Absent: "no metric was requested, or " + noAdapter,
			About:   "Answers of the adapter per second, by HTTP status. 404: the metric has no value for the request, so the HPA does not scale.",
			Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AdapterAnswers)), metric.LabelCode), Legend: "{{code}}"}}},
		{Kind: board.Series, Title: "Age of the rules' answers", W: 8, Unit: board.Seconds, Absent: "no rule has had an answer, or " + noAdapter,
			About:   "Time since each rule last had a valid answer, for the replica with the oldest one. If the answer is too old, HPAs get an error, never 0.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AdapterRuleAge), metric.LabelRule), Legend: "{{rule}}"}}},
	}
}
