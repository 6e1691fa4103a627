package boards

import (
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Overview returns the board that requires only the exporter: GPUs, their allocation and use, and which data
// source is missing if a panel is empty.
func Overview() board.Board {
	return board.Board{
		UID: OverviewUID, Title: "gpuscale / Overview",
		About: "How many GPUs there are, how many are allocated and how busy they are, by node and namespace; and why a panel is empty. This board needs only the exporter.",
		Vars:  append(where(), namespaceVar(metric.GPUHeld)),
		Marks: []board.Mark{xids()},
		Rows: []board.Row{
			{Title: "Now", Panels: overviewNow()},
			{Title: "Over time", Panels: overviewOverTime()},
			{Title: "By node and namespace", Panels: overviewTables()},
			{Title: "Why is a panel empty?", Panels: sources()},
		},
	}
}

// seenGPUs selects the GPUs that exporters report, allocatedGPUs those with a pod.
func seenGPUs() string { return "group by (" + join(device) + ") (" + board.Of(metric.GPUInfo) + ")" }

func allocatedGPUs() string {
	return seenGPUs() + " and on (" + join(device) + ") " + board.Of(metric.GPUHeld)
}

// busyThings returns the busy ratio of each MIG instance, and of each GPU without instances.
func busyThings() string {
	return "(" + board.Most(board.Of(metric.GPUBusyRatio), thing...) + " or " + board.Most(board.Of(metric.GPUInstanceBusyRatio), thing...) + ")"
}

// idleThings selects GPUs and instances that are allocated and have not computed for ten minutes.
func idleThings() string { return board.Most(board.Of(metric.GPUIdleSeconds), thing...) + " > 600" }

func overviewNow() []board.Panel {
	noneOf := func(expr string) string { return "count(" + expr + ") or 0 * count(" + seenGPUs() + ")" }
	return []board.Panel{
		stat(3, "GPUs", "GPUs that exporters report.", noExporter, "count("+seenGPUs()+")", board.Count, nil),
		stat(3, "Allocated", "Share of the GPUs of which at least a part is allocated to a pod.", noExporter, "("+noneOf(allocatedGPUs())+") / count("+seenGPUs()+")", board.Percent, nil),
		stat(3, "Mean busy", "Mean share of time in which GPUs, or their MIG instances, computed.", noExporter, "avg("+busyThings()+")", board.Percent, nil),
		stat(3, "Allocated and idle", "GPUs and MIG instances that are allocated to a pod and have been idle for ten minutes.", noExporter, "count("+idleThings()+") or 0 * count("+seenGPUs()+")",
			board.Count, from(1, board.Warn)),
		stat(3, "Broken", "GPUs that their exporter reports as broken.", noExporter, "sum(min by ("+join(device)+") ("+board.Of(metric.GPUHealthy)+") == bool 0)", board.Count, board.Rising(1, 1)),
		stat(3, "Drivers down", "Exporters that run, but get no answer from the driver.", noExporter, "sum("+board.Of(metric.ExporterUp)+" == bool 0)", board.Count, board.Rising(1, 1)),
		stat(3, "Oldest value", "Age of the oldest current value of a GPU.", noExporter, "max("+board.Of(metric.GPUSampleAgeSeconds)+")", board.Seconds, board.Rising(60, 180)),
		stat(3, "Power", "Power of all GPUs, without the rest of the servers.", noExporter, board.Sum(board.Most(board.Of(metric.GPUPowerWatts), metric.LabelGPUUUID)), board.Watts, nil),
	}
}

func overviewOverTime() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "GPUs by product", W: 8, Unit: board.Count, Stack: true, Steps: true, Absent: noExporter,
			About:   "GPUs that exporters report, by model as the driver names it.",
			Queries: []board.Query{{Expr: board.CountOf(board.Most(board.Of(metric.GPUInfo), slices.Concat(device, []string{metric.LabelModel})...), metric.LabelModel), Legend: "{{model}}"}}},
		{Kind: board.Series, Title: "Allocated GPUs", W: 8, Unit: board.Count, Steps: true, Absent: noExporter,
			About: "GPUs of which at least a part is allocated to a pod, and all GPUs.", Hues: []board.Hue{{Name: "allocated", Colour: board.Plain}, {Name: "all", Colour: board.Muted}},
			Queries: []board.Query{{Expr: "count(" + allocatedGPUs() + ")", Legend: "allocated"}, {Expr: "count(" + seenGPUs() + ")", Legend: "all"}}},
		{Kind: board.Series, Title: "Busy", W: 8, Unit: board.Percent, Max: 1, Absent: noExporter,
			About: "Mean share of time in which GPUs, or their MIG instances, computed.", Hues: []board.Hue{{Name: "mean", Colour: board.Plain}},
			Queries: []board.Query{{Expr: "avg(" + busyThings() + ")", Legend: "mean"}}},
	}
}

func overviewTables() []board.Panel {
	node := []string{"cluster", metric.LabelNode}
	by := []string{"cluster", metric.LabelNamespace}
	return []board.Panel{
		board.Panel{Kind: board.Table, Title: "By node", W: 12, H: 9, Unit: board.Count, Absent: noExporter,
			About: "GPUs of each node, how many of them are at least partly allocated, their mean busy ratio, and their power.",
		}.With(column("cluster", "Cluster"),
			board.Column{Label: metric.LabelNode, Title: "Node", Link: &board.Link{Title: "Health of the node", UID: HealthUID, Set: map[string]string{"node": metric.LabelNode}}},
			board.Column{Expr: board.CountOf(seenGPUs(), node...), Title: "GPUs", Sort: true}, board.Column{Expr: board.CountOf(allocatedGPUs(), node...) + " or 0 * " + freshMap(), Title: "Allocated"},
			board.Column{Expr: "avg by (" + join(node) + ") (" + busyThings() + ")", Title: "Busy", Unit: board.Percent},
			board.Column{Expr: board.Sum(board.Most(board.Of(metric.GPUPowerWatts), append(node, metric.LabelGPUUUID)...), node...), Title: "Power", Unit: board.Watts}),
		board.Panel{Kind: board.Table, Title: "By namespace", W: 12, H: 9, Unit: board.Count, Absent: "no GPU is allocated, or " + noExporter,
			About: "GPUs and MIG instances that are allocated to the pods of each namespace, their mean busy ratio, and how many have been idle for ten minutes.",
		}.With(column("cluster", "Cluster"),
			board.Column{Label: metric.LabelNamespace, Title: "Namespace", Link: &board.Link{Title: "Open the workloads", UID: WorkloadUID, Set: map[string]string{"namespace": metric.LabelNamespace}}},
			board.Column{Expr: board.CountOf(podThings(), by...), Title: "Allocated", Sort: true}, board.Column{Expr: "avg by (" + join(by) + ") (" + busyOfAllocated() + ")", Title: "Busy", Unit: board.Percent},
			board.Column{Expr: board.Sum(board.Most(board.Own(metric.GPUIdleSeconds), holding...)+" > bool 600", by...), Title: "Idle", Scale: from(1, board.Warn)}),
	}
}

// source is a group of series that panels read.
type source struct{ name, selector string }

// tiles shows which sources have series.
func tiles(title, about string, missing board.Colour, list ...source) board.Panel {
	p := board.Panel{Kind: board.Stat, Title: title, About: about, Unit: board.Count, W: 24, H: 4, Absent: "Prometheus does not answer.",
		Words: []board.Word{{Value: 1, Text: "present", Colour: board.Good}, {Value: 0, Text: "missing", Colour: missing}}}
	for _, s := range list {
		p.Queries = append(p.Queries, board.Query{Expr: board.Presence(s.selector), Legend: s.name})
	}
	return p
}

// aboutRules describes the tiles of recording rules.
const aboutRules = "Whether Prometheus has series of gpuscale's recording rules, by group. If a group is missing, panels that read it are n/a: load deploy/chart/gpuscale/files/recording.yaml (docs/report.md), or find the missing source of the group above."

func sources() []board.Panel {
	return []board.Panel{
		tiles("Sources that every cluster has", "If a source is missing, the exporter does not run, or Prometheus does not scrape it: check the ServiceMonitor and NetworkPolicies.", board.Bad,
			source{"exporter", board.Of(metric.ExporterUp)}, source{"gpus", board.Of(metric.GPUInfo)}, source{"health", board.Of(metric.GPUHealthy)},
			source{"power", board.Of(metric.GPUPowerWatts)}, source{"attribution", board.Of(metric.GPUAttributionAgeSeconds)}),
		tiles("Sources that depend on what runs", "A source is missing where it does not exist: no GPU is allocated, no GPU is in MIG mode, or the adapter or the autoscaler is not installed.", board.Muted,
			source{"allocations", board.Of(metric.GPUHeld)}, source{"busy, GPUs", board.Of(metric.GPUBusyRatio)}, source{"busy, slices", board.Of(metric.GPUInstanceBusyRatio)},
			source{"MIG instances", board.Of(metric.GPUInstanceInfo)}, source{"adapter", board.Of(metric.AdapterBuildInfo)}, source{"autoscaler", board.Of(metric.AutoscalerLeader)},
			source{"model servers", board.Named("", named(queued...))}),
		tiles("Recording rules", aboutRules, board.Watch,
			source{"gpus", recorded("node:gpu_info:count")}, source{"pods", recorded("pod:gpu_memory_used:ratio")}, source{"MIG", recorded(rules.SliceStanding)}),
		{Kind: board.Stat, Title: "Labels of pods", W: 6, H: 5, Unit: board.Count, Absent: "no GPU is allocated to a pod, or " + noExporter,
			About:   "Whether Prometheus keeps the labels namespace and pod of the exporter's series, or moves them to exported_namespace and exported_pod. Boards and adapter work with both.",
			Words:   []board.Word{{Value: 1, Text: "moved to exported_", Colour: board.Plain}, {Value: 0, Text: "kept", Colour: board.Plain}},
			Queries: []board.Query{{Expr: "group(" + board.Of(metric.GPUHeld, `exported_namespace!=""`) + ") or group(" + board.Of(metric.GPUHeld) + ") * 0"}}},
		{Kind: board.Table, Title: "Versions", W: 18, H: 5, Unit: board.Count, Absent: "Prometheus scrapes no program of gpuscale.", About: "Processes by program and version. If a program has two versions, an upgrade is in progress or stuck.",
			Queries: []board.Query{{Expr: versions()}},
			Columns: []board.Column{{Label: "program", Title: "Program"}, {Label: metric.LabelVersion, Title: "Version"}, {Value: 1, Title: "Processes", Sort: true}}},
	}
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
