package boards

import (
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Workload answers, for an application team: what do my pods hold, do they use it,
// what waits in front of them, and what does the HPA make of that?
func Workload() board.Board {
	hpa := board.Var{Name: "hpa", Title: "HPA", About: "HPAs whose pods want GPUs.", Series: board.Of(metric.AutoscalerHPAReplicas), Label: metric.LabelHPA}
	return board.Board{
		UID: WorkloadUID, Title: "gpuscale / Workload",
		About: "What the pods of a namespace hold, whether they use it, what waits in front of them, and what their HPA makes of that.",
		Vars:  append(where(), namespaceVar(metric.GPUHeld), hpa),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "Now", Panels: workloadNow()},
			{Title: "Replicas", Panels: replicas()},
			{Title: "In front of the pods", Panels: serving()},
			{Title: "Cards and slices", Panels: holdings()},
		},
	}
}

// thing are the labels that tell what can be held apart: a card, or an instance.
var thing = append(append([]string{}, card...), metric.LabelGPUInstanceID)

// holder and what it holds.
var holding = append([]string{metric.LabelNamespace, metric.LabelPod, metric.LabelProfile}, thing...)

// heldThings has a 1 for everything that a pod of the namespaces holds.
func heldThings() string { return board.Most(board.Own(metric.GPUHeld), holding...) }

// ofHeld are a series' values for everything that is held, with the holder's labels.
func ofHeld(ds ...metric.Desc) string {
	var all []string
	for _, d := range ds {
		all = append(all, board.Most(board.Of(d), thing...))
	}
	return heldThings() + " * on (" + strings.Join(thing, ",") + ") group_left () (" + strings.Join(all, " or ") + ")"
}

// busy of instances where there are some, else of cards.
func busyOfHeld() string { return ofHeld(metric.GPUInstanceBusyRatio, metric.GPUBusyRatio) }

func workloadNow() []board.Panel {
	idle := board.Own(metric.GPUIdleSeconds)
	return []board.Panel{
		{Kind: board.Stat, Title: "Pods with cards", Unit: board.Count, Absent: "no pod holds a card, or " + noExporter,
			About:   "Pods of the namespaces that hold a card or a slice.",
			Queries: []board.Query{{Expr: "count(" + board.CountOf(heldThings(), metric.LabelNamespace, metric.LabelPod) + ")"}}},
		{Kind: board.Stat, Title: "Cards and slices", Unit: board.Count, Absent: "no pod holds a card, or " + noExporter,
			About:   "Cards and MIG instances that the pods hold, each counted once.",
			Queries: []board.Query{{Expr: "count(" + board.Most(heldThings(), thing...) + ")"}}},
		{Kind: board.Stat, Title: "Mean busy", Unit: board.Percent, Absent: "nothing is held, or what is held has no busy ratio: " + noExporter,
			About:   "Mean share of time in which what is held computed, a slice counting as much as a card. It is not judged: what has no busy ratio is not in it.",
			Queries: []board.Query{{Expr: "avg(" + busyOfHeld() + ")"}}},
		{Kind: board.Stat, Title: "Longest idle", Unit: board.Seconds, Scale: board.Scale{{Colour: board.Ink}, {From: 600, Colour: board.Watch}, {From: 3600, Colour: board.Warn}},
			Absent: "nothing is held, or " + noExporter, About: "The longest time for which something has been held without computing.",
			Queries: []board.Query{{Expr: "max(" + idle + ")"}}},
		{Kind: board.Stat, Title: "Requests waiting now", Unit: board.Number, Absent: noServer, Scale: board.Scale{{Colour: board.Ink}, {From: 1, Colour: board.Watch}, {From: 100, Colour: board.Bad}},
			About: "Requests in the queues of the model servers of the namespaces.", Queries: []board.Query{{Expr: board.Sum(queues())}}},
		{Kind: board.Stat, Title: "HPAs at their maximum", Unit: board.Count, Absent: noHPA, Scale: board.Rising(1, 3),
			About:   "HPAs that run as many replicas as they may. What they would like beyond that is not known to anybody.",
			Queries: []board.Query{{Expr: "sum(" + hpaKind("current") + " >= bool " + hpaKind("max") + ")"}}},
	}
}

const (
	noServer = "no model server of a kind that is read (docs/signals.md) is scraped in the namespaces."
	noHPA    = "no HPA here has pods that want GPUs, or " + noAutoscaler
)

func hpaKind(kind string) string {
	return board.Sum(board.Own(metric.AutoscalerHPAReplicas, board.In(metric.LabelHPA, "hpa"), board.Is(metric.LabelKind, kind)), metric.LabelNamespace, metric.LabelHPA)
}

func replicas() []board.Panel {
	by := []string{metric.LabelNamespace, metric.LabelHPA}
	return []board.Panel{
		{Kind: board.Series, Title: "What the HPA wants and has", W: 12, Unit: board.Number, Steps: true, Absent: noHPA,
			About: "desired is what the HPA decided after its own limits and windows, current what exists.",
			Queries: []board.Query{
				{Expr: hpaKind("desired"), Legend: "{{namespace}}/{{hpa}} desired"},
				{Expr: hpaKind("current"), Legend: "{{namespace}}/{{hpa}} current"},
				{Expr: hpaKind("max"), Legend: "{{namespace}}/{{hpa}} max"},
			}},
		{Kind: board.Timeline, Title: "What limits the HPA", W: 12, Unit: board.Count, Absent: "nothing limits it, or " + noHPA,
			About: "Reasons, in the HPA's own words, for which it could not scale, did not, or would have gone further. FailedGetExternalMetric and the like mean that it had no number.",
			Words: []board.Word{{Value: 1, Text: "limited", Colour: board.Warn}},
			Queries: []board.Query{{Expr: board.Most(board.Own(metric.AutoscalerHPALimited, board.In(metric.LabelHPA, "hpa")), append(by, metric.LabelReason)...),
				Legend: "{{namespace}}/{{hpa}} {{reason}}"}}},
	}
}

// anyOf selects series of several names at once.
func anyOf(names ...string) string {
	return board.Named("", `__name__=~"`+strings.Join(names, "|")+`"`, `namespace=~"$namespace"`)
}

// queues are the series of requests that wait in a server. Gateways are left out:
// they count the same requests again.
func queues() string {
	return anyOf(metric.VLLMWaiting.Name, metric.SGLangQueued.Name, metric.TRTLLMWaiting.Name, metric.TritonPending.Name, metric.TGIQueue.Name)
}

func serving() []board.Panel {
	by := []string{metric.LabelNamespace, metric.LabelPod}
	legend := "{{namespace}}/{{pod}}"
	return []board.Panel{
		{Kind: board.Series, Title: "Requests waiting", W: 6, Unit: board.Number, Stack: true, Absent: noServer,
			About: "By pod. This is what the signal queue_depth is made of.", Queries: []board.Query{{Expr: board.Sum(queues(), by...), Legend: legend}}},
		{Kind: board.Series, Title: "Requests running", W: 6, Unit: board.Number, Stack: true, Absent: noServer,
			About:   "By pod. This is what the signal requests_running is made of.",
			Queries: []board.Query{{Expr: board.Sum(anyOf(metric.VLLMRunning.Name, metric.SGLangRunning.Name, metric.TRTLLMRunning.Name, metric.TGIBatch.Name), by...), Legend: legend}}},
		{Kind: board.Series, Title: "KV cache in use", W: 6, Unit: board.Percent, Max: 1, Absent: noServer,
			About:   "Share of the cache's blocks in use, by pod. At 100 % running requests are put off and computed again.",
			Queries: []board.Query{{Expr: board.Most(anyOf(metric.VLLMCacheUsage.Name, metric.VLLMCacheUsageOld.Name, metric.SGLangCacheUsage.Name, metric.TRTLLMCacheUsage.Name), by...), Legend: legend}}},
		{Kind: board.Series, Title: "Time to first token, p95", W: 6, Unit: board.Seconds, Absent: "no request got its first token in five minutes, or " + noServer + noRules,
			About:   "95 of 100 requests of five minutes waited less, by pod. The twenty slowest.",
			Queries: []board.Query{{Expr: "topk(20, " + recorded("pod:llm_first_token_seconds:p95_5m", inNamespace) + ")", Legend: legend}}},
	}
}

func holdings() []board.Panel {
	idle := board.Most(board.Own(metric.GPUIdleSeconds), holding...)
	return []board.Panel{
		{Kind: board.Table, Title: "Who holds what", Unit: board.Number, Absent: "the exporter does not tell this of it (see docs/exporter.md), or " + noExporter,
			About: "A row for each card or slice that a pod holds. Busy is of what is held, not of the whole card.",
			Queries: []board.Query{{Expr: heldThings()}, {Expr: busyOfHeld()}, {Expr: idle},
				{Expr: ofHeld(metric.GPUMemoryUsedBytes)}, {Expr: ofHeld(metric.GPUMemoryTotalBytes)}},
			Columns: []board.Column{
				{Label: "cluster", Title: "Cluster", Width: 90}, {Label: metric.LabelNamespace, Title: "Namespace", Width: 130}, {Label: metric.LabelPod, Title: "Pod", Width: 240},
				{Label: metric.LabelNode, Title: "Node", Width: 150, Link: &board.Link{Title: "Health of the node", UID: HealthUID, Set: map[string]string{"node": metric.LabelNode}}},
				{Label: metric.LabelGPU, Title: "Card", Width: 60}, {Label: metric.LabelProfile, Title: "Profile", Width: 110},
				{Label: metric.LabelGPUInstanceID, Title: "Instance", Width: 80},
				{Value: 2, Title: "Busy", Unit: board.Percent, Scale: board.Falling(0.05, 0.5)},
				{Value: 3, Title: "Idle for", Unit: board.Seconds, Sort: true, Scale: board.Scale{{Colour: board.Ink}, {From: 600, Colour: board.Watch}, {From: 3600, Colour: board.Warn}}},
				{Value: 4, Title: "Memory used", Unit: board.Bytes}, {Value: 5, Title: "Memory", Unit: board.Bytes},
			}},
		{Kind: board.Series, Title: "Busy by pod", Unit: board.Percent, Max: 1, Absent: "the pod holds nothing, or what it holds has no busy ratio." + noRules,
			About:   "Mean share of time in which what the pod holds computed. The twenty that computed least at the moment.",
			Queries: []board.Query{{Expr: "bottomk(20, " + recorded("pod:gpu_busy_ratio:avg", inNamespace) + ")", Legend: "{{namespace}}/{{pod}}"}}},
		{Kind: board.Series, Title: "Memory in use by pod", Unit: board.Percent, Max: 1, Absent: "the pod holds nothing, or the exporter has no memory of it." + noRules,
			About:   "Share of the memory of what the pod holds. A pod that stays far below may fit a smaller slice. The twenty that use least at the moment.",
			Queries: []board.Query{{Expr: "bottomk(20, " + recorded("pod:gpu_memory_used:ratio", inNamespace) + ")", Legend: "{{namespace}}/{{pod}}"}}},
	}
}
