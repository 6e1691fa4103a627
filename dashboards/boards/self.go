package boards

import (
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Self: the health of gpuscale itself, and why a panel is empty.
func Self() board.Board {
	return board.Board{
		UID: SelfUID, Title: "gpuscale / Self",
		About: "Health of exporter, adapter and autoscaler, and the missing source of an empty panel.",
		Vars:  where(),
		Rows: []board.Row{
			{Title: "Why is a panel empty? Sources and their presence", Panels: sources()},
			{Title: "Exporter", Panels: exporterSelf()},
			{Title: "Adapter", Panels: adapterSelf()},
			{Title: "Autoscaler", Panels: autoscalerSelf()},
		},
	}
}

// Source is a family of series that panels read, and what is wrong without it.
type source struct{ name, selector string }

func sources() []board.Panel {
	there := func(missing board.Colour) []board.Word {
		return []board.Word{{Value: 1, Text: "there", Colour: board.Good}, {Value: 0, Text: "missing", Colour: missing}}
	}
	tiles := func(title, about string, missing board.Colour, list ...source) board.Panel {
		p := board.Panel{Kind: board.Stat, Title: title, About: about, Unit: board.Count, W: 24, H: 4, Words: there(missing),
			Absent: "Prometheus itself does not answer."}
		for _, s := range list {
			p.Queries = append(p.Queries, board.Query{Expr: board.Presence(s.selector), Legend: s.name})
		}
		return p
	}
	servers := anyOfCluster(metric.VLLMWaiting.Name, metric.SGLangQueued.Name, metric.TRTLLMWaiting.Name, metric.TritonPending.Name, metric.TGIQueue.Name)
	return []board.Panel{
		tiles("Sources that every cluster has", "Missing: the program does not run, or is not scraped (ServiceMonitor, NetworkPolicy), or its replicas have no leader (fleet).", board.Bad,
			source{"exporter", board.Of(metric.ExporterUp)}, source{"gpus", board.Of(metric.GPUInfo)}, source{"health", board.Of(metric.GPUHealthy)},
			source{"power", board.Of(metric.GPUPowerWatts)}, source{"attribution", board.Of(metric.GPUAttributionAgeSeconds)},
			source{"adapter", board.Of(metric.AdapterBuildInfo)}, source{"autoscaler", board.Of(metric.AutoscalerLeader)}, source{"fleet", board.Of(metric.AutoscalerGPUs)}),
		tiles("Sources that depend on what runs", "Missing is normal where there is no such thing: no GPU is allocated, no GPU is in MIG mode, no HPA requests GPUs, no price is stated, no forecast is listed.", board.Muted,
			source{"allocations", board.Of(metric.GPUHeld)}, source{"busy, GPUs", board.Of(metric.GPUBusyRatio)}, source{"busy, slices", board.Of(metric.GPUInstanceBusyRatio)},
			source{"MIG instances", board.Of(metric.GPUInstanceInfo)}, source{"HPAs", board.Of(metric.AutoscalerHPAReplicas)}, source{"quotas", board.Of(metric.AutoscalerTenantGPUs)},
			source{"prices", board.Of(metric.AutoscalerPoolPrice)}, source{"forecasts", board.Of(metric.AutoscalerForecastGPUs)}, source{"model servers", servers}),
		tiles("Recording rules", "Whether Prometheus evaluates our rules, by group. Missing: load deploy/chart/gpuscale/files/recording.yaml (docs/dashboards.md), or the group's sources are missing above. Panels that read them are n/a then.", board.Watch,
			source{"fleet", recorded("pool:gpuscale_capacity_gpu_seconds:rate5m")}, source{"tenants", recorded("namespace:gpuscale_gpu_seconds:rate5m")},
			source{"gpus", recorded("node:gpu_info:count")}, source{"pods", recorded("pod:gpu_memory_used:ratio")},
			source{"MIG", recorded(rules.SliceStanding)}, source{"waits", recorded("cluster:gpuscale_exporter_read_seconds:p95_30m")}),
		{Kind: board.Stat, Title: "Labels of pods", W: 6, H: 5, Unit: board.Count, Absent: "no GPU is allocated to a pod, or " + noExporter,
			About:   "Whether Prometheus keeps our namespace and pod, or moves them to exported_namespace and exported_pod. Boards and adapter work with both.",
			Words:   []board.Word{{Value: 1, Text: "moved aside", Colour: board.Plain}, {Value: 0, Text: "kept", Colour: board.Plain}},
			Queries: []board.Query{{Expr: "group(" + board.Of(metric.GPUHeld, `exported_namespace!=""`) + ") or group(" + board.Of(metric.GPUHeld) + ") * 0"}}},
		{Kind: board.Table, Title: "Versions", W: 18, H: 5, Unit: board.Count, Absent: "the program is not scraped.", About: "Processes by program and version. Two versions of one program mean that an upgrade is under way, or stuck.",
			Queries: []board.Query{{Expr: versions()}},
			Columns: []board.Column{{Label: "program", Title: "Program"}, {Label: metric.LabelVersion, Title: "Version"}, {Value: 1, Title: "Processes", Sort: true}}},
	}
}

func anyOfCluster(names ...string) string {
	return board.Named("", `__name__=~"`+strings.Join(names, "|")+`"`)
}

func versions() string {
	var all []string
	for _, p := range []struct {
		name string
		info metric.Desc
	}{{"exporter", metric.ExporterBuildInfo}, {"adapter", metric.AdapterBuildInfo}, {"autoscaler", metric.AutoscalerBuildInfo}} {
		all = append(all, `label_replace(`+board.CountOf(board.Of(p.info), metric.LabelVersion)+`,"program","`+p.name+`","","")`)
	}
	return strings.Join(all, " or ")
}

func exporterSelf() []board.Panel {
	up := board.Of(metric.ExporterUp)
	return []board.Panel{
		{Kind: board.Stat, Title: "Exporters answering", W: 4, Unit: board.Count, Absent: noExporter, About: "Exporters whose driver answers them.", Queries: []board.Query{{Expr: "sum(" + up + ")"}}},
		{Kind: board.Stat, Title: "Driver not answering", W: 4, Unit: board.Count, Absent: noExporter, Scale: board.Rising(1, 1), About: "Exporters that run and whose driver does not answer.",
			Queries: []board.Query{{Expr: "sum(" + up + " == bool 0)"}}},
		{Kind: board.Stat, Title: "Nodes without exporter", W: 4, Unit: board.Count, Absent: "the autoscaler's pools are not known: " + noAutoscaler, Scale: board.Scale{{Colour: board.Good}, {From: 1, Colour: board.Bad}},
			About:   "Ready nodes of our pools, less the exporters that answer; without any exporter these are 0. Nodes without a pool may make it negative.",
			Queries: []board.Query{{Expr: "sum(" + board.Of(metric.AutoscalerPoolSize, board.Is(metric.LabelKind, "ready")) + ") - (sum(" + up + ") or vector(0))"}}},
		{Kind: board.Stat, Title: "Oldest value", W: 4, Unit: board.Seconds, Absent: noExporter, Scale: board.Rising(60, 180), About: "Age of the oldest current value.",
			Queries: []board.Query{{Expr: "max(" + board.Of(metric.GPUSampleAgeSeconds) + ")"}}},
		{Kind: board.Stat, Title: "Oldest attribution", W: 4, Unit: board.Seconds, Absent: noExporter, Scale: board.Rising(60, 180), About: "Age of the oldest map from GPUs to pods, as read from the kubelet.",
			Queries: []board.Query{{Expr: "max(" + board.Of(metric.GPUAttributionAgeSeconds) + ")"}}},
		{Kind: board.Stat, Title: "Reads, p95", W: 4, Unit: board.Seconds, Absent: noExporter + noRules, Scale: board.Rising(1, 5), About: "Time of one pass over the driver's values, over the last half hour.",
			Queries: []board.Query{{Expr: board.Most(recorded("cluster:gpuscale_exporter_read_seconds:p95_30m"))}}},
		{Kind: board.Series, Title: "Reads", W: 8, Unit: board.PerSec, Absent: noExporter, Hues: []board.Hue{{Name: "ok", Colour: board.Good}, {Name: "error", Colour: board.Bad}},
			About: "Passes over the driver's values in a second, all exporters together.", Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.ExporterReads)), metric.LabelResult), Legend: "{{result}}"}}},
		{Kind: board.Series, Title: "Values left out", W: 8, Unit: board.PerSec, Stack: true, Absent: "none was left out for this reason since the exporter began, or " + noExporter,
			About:   "Values that were dropped, by reason. not_supported is normal; stale and error are not.",
			Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.ExporterDropped)), metric.LabelReason), Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Series", W: 8, Unit: board.Number, Absent: noExporter, About: "Series that the exporters serve together, and those left out since a page would have had too many.",
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.ExporterSeries)), Legend: "served"}}},
	}
}

func adapterSelf() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Age of the rules' answers", W: 8, Unit: board.Seconds, Absent: "no rule has had an answer, or " + noAdapter,
			About:   "Time since a rule last had a good answer, the oldest replica's. The ten oldest rules. A rule that is too old answers HPAs with an error, never with 0.",
			Queries: []board.Query{{Expr: "topk(10, " + board.Most(board.Of(metric.AdapterRuleAge), metric.LabelRule) + ")", Legend: "{{rule}}"}}},
		{Kind: board.Series, Title: "Queries to Prometheus", W: 8, Unit: board.PerSec, Absent: noAdapter, Hues: []board.Hue{{Name: "ok", Colour: board.Good}, {Name: "error", Colour: board.Bad}, {Name: "partial", Colour: board.Watch}},
			About: "By result. partial: the backend reported missing data.", Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AdapterQueries)), metric.LabelResult), Legend: "{{result}}"}}},
		{Kind: board.Series, Title: "Answers to HPAs", W: 8, Unit: board.PerSec, Stack: true, Absent: "no metric was requested, or " + noAdapter,
			About:   "By HTTP status. 404 is a metric without a value for the request: the HPA then does not scale.",
			Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AdapterAnswers)), metric.LabelCode), Legend: "{{code}}"}}},
		{Kind: board.Stat, Title: "Configuration", W: 6, Unit: board.Count, Absent: noAdapter, Words: board.YesNo("in force", board.Good, "kept the old one", board.Bad),
			About: "Whether the current configuration file is in force, at the worst replica.", Queries: []board.Query{{Expr: "min(" + board.Of(metric.AdapterReloadGood) + ")"}}},
		{Kind: board.Stat, Title: "Rules not in force", W: 6, Unit: board.Count, Absent: noAdapter, Scale: board.Rising(1, 1),
			About: "Rules whose newest version is invalid: kept from before, or rejected.",
			Queries: []board.Query{{Expr: "sum(" + board.Most(board.Of(metric.AdapterRuleState, `state!="in_force"`), metric.LabelRule) + ") or 0 * group(" +
				board.Of(metric.AdapterRuleState) + ")"}}},
		{Kind: board.Stat, Title: "Query, p95", W: 6, Unit: board.Seconds, Absent: noAdapter, Scale: board.Rising(1, 5), About: "Time of one query to Prometheus, over the selected time.",
			Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AdapterQuerySeconds, "$__range")}}},
		{Kind: board.Stat, Title: "Questions", W: 6, Unit: board.Count, Absent: noAdapter, About: "Queries sent regularly, of the busiest replica.", Queries: []board.Query{{Expr: "max(" + board.Of(metric.AdapterQuestions) + ")"}}},
	}
}

func autoscalerSelf() []board.Panel {
	return []board.Panel{
		{Kind: board.Stat, Title: "Leaders", W: 8, Unit: board.Count, Absent: noAutoscaler, Scale: board.Scale{{Colour: board.Bad}, {From: 1, Colour: board.Good}, {From: 2, Colour: board.Bad}},
			About: "Replicas that lead. There must be one.", Queries: []board.Query{{Expr: "sum(" + board.Of(metric.AutoscalerLeader) + ")"}}},
		{Kind: board.Stat, Title: "Last reconcile", W: 8, Unit: board.Seconds, Absent: "no reconcile has succeeded, or " + noAutoscaler, Scale: board.Rising(60, 180),
			About: "Time since a reconcile (observe, plan, act) last succeeded.", Queries: []board.Query{{Expr: "time() - max(" + board.Of(metric.AutoscalerReconcileAge) + ")"}}},
		{Kind: board.Stat, Title: "Planner panics", W: 8, Unit: board.Count, Absent: noAutoscaler, Scale: board.Rising(1, 1),
			About:   "Reconciles in which the planner panicked and nothing was done: a bug to report with the output of /debug/panic.",
			Queries: []board.Query{{Expr: board.Sum(board.Grown(board.Of(metric.AutoscalerPlannerPanics)))}}},
		{Kind: board.Series, Title: "Age of the plan's input", W: 12, Unit: board.Seconds, Absent: "nothing of this kind was read, or " + noAutoscaler,
			About:   "cluster: since it was read from the API server. prometheus: since it was queried.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerSnapshotAge), metric.LabelKind), Legend: "{{kind}}"}}},
		{Kind: board.Series, Title: "Reconciles", W: 12, Unit: board.PerSec, Absent: noAutoscaler, Hues: []board.Hue{{Name: "ok", Colour: board.Good}, {Name: "error", Colour: board.Bad}},
			About: "Reconciles per second, by result.", Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AutoscalerReconciles)), metric.LabelResult), Legend: "{{result}}"}}},
		{Kind: board.Series, Title: "Time of a reconcile, p95", W: 12, Unit: board.Seconds, Absent: noAutoscaler,
			About: "By phase, over the time of one point.", Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AutoscalerReconcileSeconds, "$__rate_interval", metric.LabelPhase), Legend: "{{phase}}"}}},
		{Kind: board.Series, Title: "Events", W: 12, Unit: board.PerSec, Stack: true, Absent: "none was emitted, or " + noAutoscaler,
			Hues:  []board.Hue{{Name: "written", Colour: board.Good}, {Name: "merged", Colour: board.Plain}, {Name: "dropped", Colour: board.Warn}, {Name: "failed", Colour: board.Bad}},
			About: "Kubernetes Events by result.", Queries: []board.Query{{Expr: board.Sum(board.Rate(board.Of(metric.AutoscalerEvents)), metric.LabelResult), Legend: "{{result}}"}}},
	}
}
