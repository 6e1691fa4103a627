package boards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Workload returns the board for an application team: what is allocated to its pods, how it is used, queued
// requests, and the HPA's reaction.
func Workload() board.Board {
	hpa := byLabel("hpa", "HPA", "HPAs whose pods request GPUs.", metric.AutoscalerHPAReplicas, metric.LabelHPA)
	return board.Board{
		UID: WorkloadUID, Title: "gpuscale / Workload",
		About: "GPUs of the pods of a namespace and how busy they are, queued requests, and how the HPA reacts.",
		Vars:  append(where(), namespaceVar(metric.GPUHeld), hpa),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "Now", Panels: workloadNow()},
			{Title: "Replicas", Panels: replicas()},
			{Title: "Requests", Panels: serving()},
			{Title: "GPUs and slices", Panels: holdings()},
		},
	}
}

// holding lists the labels of a pod and of what is allocated to it.
var holding = append([]string{metric.LabelNamespace, metric.LabelPod, metric.LabelProfile}, thing...)

// podThings is 1 for each GPU or instance that is allocated to a pod of the selected namespaces.
func podThings() string { return board.Most(board.Own(metric.GPUHeld), holding...) }

// ofAllocated returns a series' values for GPUs and instances that are allocated, with the pod's labels.
func ofAllocated(ds ...metric.Desc) string {
	var all []string
	for _, d := range ds {
		all = append(all, board.Most(board.Of(d), thing...))
	}
	return podThings() + " * on (" + strings.Join(thing, ",") + ") group_left () (" + strings.Join(all, " or ") + ")"
}

// busyOfAllocated reads instances where they have a value, and GPUs otherwise.
func busyOfAllocated() string { return ofAllocated(metric.GPUInstanceBusyRatio, metric.GPUBusyRatio) }

// longIdle colours idle times from ten minutes on, and stronger from an hour on.
var longIdle = board.Scale{{Colour: board.Ink}, {From: 600, Colour: board.Watch}, {From: 3600, Colour: board.Warn}}

func workloadNow() []board.Panel {
	const none = "no GPU is allocated to a pod, or " + noExporter
	return []board.Panel{
		stat(4, "Pods with GPUs", "Pods of the selected namespaces that have a GPU or a slice.", none, "count("+board.CountOf(podThings(), metric.LabelNamespace, metric.LabelPod)+")", board.Count, nil),
		stat(4, "GPUs and slices", "GPUs and MIG instances that are allocated to these pods; each counts once.", none, "count("+board.Most(podThings(), thing...)+")", board.Count, nil),
		stat(4, "Mean busy", "Mean share of time in which these GPUs and slices computed. A slice counts as much as a GPU; GPUs and slices without a busy ratio do not count.",
			"no GPU is allocated, or it has no busy ratio: "+noExporter, "avg("+busyOfAllocated()+")", board.Percent, nil),
		stat(4, "Longest idle", "The longest time for which an allocated GPU or slice has been idle.", "no GPU is allocated, or "+noExporter, "max("+board.Own(metric.GPUIdleSeconds)+")", board.Seconds, longIdle),
		stat(4, "Requests waiting now", "Requests in the queues of the model servers in the selected namespaces.", noServer, board.Sum(queues()),
			board.Number, board.Scale{{Colour: board.Ink}, {From: 1, Colour: board.Watch}, {From: 100, Colour: board.Bad}}),
		stat(4, "HPAs at their maximum", "HPAs that have their maximum of replicas. How many more they need is not known.", noHPA, "sum("+hpaKind("current")+" >= bool "+hpaKind("max")+")", board.Count, board.Rising(1, 3)),
	}
}

const (
	noServer = "Prometheus scrapes no supported model server (docs/signals.md) in the selected namespaces."
	noHPA    = "no HPA in the selected namespaces has pods that request GPUs, or " + noAutoscaler
)

func hpaKind(kind string) string {
	return board.Sum(board.Own(metric.AutoscalerHPAReplicas, board.In(metric.LabelHPA, "hpa"), board.Is(metric.LabelKind, kind)), metric.LabelNamespace, metric.LabelHPA)
}

func replicas() []board.Panel {
	by := []string{metric.LabelNamespace, metric.LabelHPA}
	return []board.Panel{
		{Kind: board.Series, Title: "HPA replicas", W: 12, Unit: board.Number, Steps: true, Absent: noHPA,
			About: "desired: the decision of the HPA, after its limits and windows. current: the replicas that exist.",
			Queries: []board.Query{
				{Expr: hpaKind("desired"), Legend: "{{namespace}}/{{hpa}} desired"},
				{Expr: hpaKind("current"), Legend: "{{namespace}}/{{hpa}} current"},
				{Expr: hpaKind("max"), Legend: "{{namespace}}/{{hpa}} max"},
			}},
		{Kind: board.Timeline, Title: "HPA limits", W: 12, Unit: board.Count, Absent: "nothing limits the HPA, or " + noHPA,
			About: "Reasons in the HPA's conditions why it was limited, or did not scale. FailedGetExternalMetric, FailedGetPodsMetric and FailedGetObjectMetric: the HPA got no value for its metric.",
			Words: []board.Word{{Value: 1, Text: "limited", Colour: board.Warn}},
			Queries: []board.Query{{Expr: board.Most(board.Own(metric.AutoscalerHPALimited, board.In(metric.LabelHPA, "hpa")), append(by, metric.LabelReason)...),
				Legend: "{{namespace}}/{{hpa}} {{reason}}"}}},
	}
}

// anyOf selects several series under all their names. It reads the servers' own series, and those that
// gateways repeat only in namespaces without own series. The router of vLLM's production stack repeats vLLM's
// without a model. Triton has one series name for several numbers: a label value selects the right one. SGLang
// with --enable-priority-scheduling also exposes a number per priority; only the total, without a priority, is read.
// Another server may have that label from its pod.
func anyOf(label, value string, of ...metric.Read) string {
	selected := func(keep func(metric.Read) bool, matchers ...string) string {
		var all []string
		matchers = append(matchers, `namespace=~"$namespace"`, label+`=~"|`+value+`"`)
		for _, sglang := range []bool{false, true} {
			reads := slices.DeleteFunc(slices.Clone(of), func(r metric.Read) bool { return !keep(r) || (r.Server == metric.ServerSGLang) != sglang })
			if len(reads) > 0 {
				all = append(all, board.Named("", append(matchers, named(reads...))...))
			}
			matchers = append(matchers, `priority=""`)
		}
		return strings.Join(all, " or ")
	}
	modelled := func(r metric.Read) bool { return r.Mark() != "" || r.Server == metric.ServerVLLM }
	const notRepeated = metric.LabelWorkerAddr + `=""`
	own := selected(modelled, metric.LabelModelName+`!=""`, notRepeated) + " or " +
		selected(func(r metric.Read) bool { return !modelled(r) }, notRepeated)
	return fmt.Sprintf("%[1]s or (%[2]s) unless on (cluster,%[3]s) (%[1]s)", own, selected(func(r metric.Read) bool { return r.Mark() == "" }), metric.LabelNamespace)
}

func named(of ...metric.Read) string {
	return `__name__=~"` + strings.Join(metric.Names(of...), "|") + `"`
}

// queues returns the series of requests that are waiting in a server.
func queues() string { return anyOf(metric.LabelRequestType, "waiting", queued...) }

var queued = []metric.Read{
	metric.VLLMWaiting, metric.SGLangQueued, metric.SGLangPrealloc, metric.LMDeployWaiting, metric.LMDeployUnrouted, metric.TRTLLMWaiting,
	metric.TritonPending, metric.TritonLLMRequests, metric.NIMWaiting, metric.TGIQueue, metric.TEIQueue, metric.LlamaDeferred,
}

// ofPods returns the recorded series of the pods that the function chooses.
func ofPods(choose, record string) string {
	return board.Steady(choose, 20, recorded(record, inNamespace), func(s string) string { return s }, "cluster", metric.LabelNamespace, metric.LabelPod)
}

func serving() []board.Panel {
	by := []string{metric.LabelNamespace, metric.LabelPod}
	legend := "{{namespace}}/{{pod}}"
	return []board.Panel{
		{Kind: board.Series, Title: "Requests waiting", W: 6, Unit: board.Number, Stack: true, Absent: noServer,
			About: "Requests in the queue of each pod. The adapter computes the metric queue_depth from this.", Queries: []board.Query{{Expr: board.Sum(queues(), by...), Legend: legend}}},
		{Kind: board.Series, Title: "Requests running", W: 6, Unit: board.Number, Stack: true, Absent: noServer,
			About: "Requests that each pod processes. The adapter computes the metric requests_running from this.",
			Queries: []board.Query{{Expr: board.Sum(anyOf(metric.LabelRequestType, "scheduled", metric.VLLMRunning, metric.SGLangRunning, metric.LMDeployRunning, metric.TRTLLMRunning,
				metric.TritonLLMRequests, metric.NIMRunning, metric.TGIBatch, metric.LlamaProcessing), by...), Legend: legend}}},
		{Kind: board.Series, Title: "KV cache in use", W: 6, Unit: board.Percent, Max: 1, Absent: noServer,
			About: "Share of the KV cache that is in use, by pod. At 100 % the server preempts running requests and computes them again.",
			Queries: []board.Query{{Expr: board.Most(anyOf(metric.LabelBlockType, "fraction", metric.VLLMCacheUsage, metric.VLLMCacheUsageOld, metric.SGLangCacheUsage, metric.LMDeployCacheUsage,
				metric.TRTLLMCacheUsage, metric.TritonLLMCache, metric.NIMCacheUsage, metric.DynamoCacheUsage, metric.DynamoCacheUsageOld), by...), Legend: legend}}},
		{Kind: board.Series, Title: "Time to first token, p95", W: 6, Unit: board.Seconds, Absent: "no request got its first token in five minutes, or " + noServer + noRules,
			About:   "95th percentile over five minutes, for the twenty pods that are slowest now.",
			Queries: []board.Query{{Expr: ofPods("topk", "pod:llm_first_token_seconds:p95_5m"), Legend: legend}}},
	}
}

func holdings() []board.Panel {
	return []board.Panel{
		board.Panel{Kind: board.Table, Title: "Allocations", Unit: board.Number, Absent: "the exporter does not report it (see docs/exporter.md), or " + noExporter,
			About: "One row for each GPU or slice that is allocated to a pod. Busy is the ratio of the slice, not of its GPU.", Queries: []board.Query{{Expr: podThings()}},
		}.With(board.Column{Label: "cluster", Title: "Cluster", Width: 90}, board.Column{Label: metric.LabelNamespace, Title: "Namespace", Width: 130}, board.Column{Label: metric.LabelPod, Title: "Pod", Width: 240},
			board.Column{Label: metric.LabelNode, Title: "Node", Width: 150, Link: &board.Link{Title: "Health of the node", UID: HealthUID, Set: map[string]string{"node": metric.LabelNode}}},
			board.Column{Label: metric.LabelGPU, Title: "GPU", Width: 60}, board.Column{Label: metric.LabelProfile, Title: "Profile", Width: 110}, board.Column{Label: metric.LabelGPUInstanceID, Title: "Instance", Width: 80},
			board.Column{Expr: busyOfAllocated(), Title: "Busy", Unit: board.Percent, Scale: board.Falling(0.05, 0.5)},
			board.Column{Expr: board.Most(board.Own(metric.GPUIdleSeconds), holding...), Title: "Idle for", Unit: board.Seconds, Sort: true, Scale: longIdle},
			board.Column{Expr: ofAllocated(metric.GPUMemoryUsedBytes), Title: "Memory used", Unit: board.Bytes}, board.Column{Expr: ofAllocated(metric.GPUMemoryTotalBytes), Title: "Memory", Unit: board.Bytes}),
		{Kind: board.Series, Title: "Busy by pod", Unit: board.Percent, Max: 1, Absent: "no GPU is allocated to a pod, or it has no busy ratio." + noRules,
			About:   "Mean share of time in which the pod's GPUs and slices computed, for the twenty pods that compute least now.",
			Queries: []board.Query{{Expr: ofPods("bottomk", "pod:gpu_busy_ratio:avg"), Legend: "{{namespace}}/{{pod}}"}}},
		{Kind: board.Series, Title: "Memory in use by pod", Unit: board.Percent, Max: 1, Absent: "no GPU is allocated to a pod, or the exporter does not report its memory." + noRules,
			About:   "Share of the pod's GPU memory that is in use, for the twenty pods that use least now. A pod that stays far below 100 % may fit a smaller slice.",
			Queries: []board.Query{{Expr: ofPods("bottomk", "pod:gpu_memory_used:ratio"), Legend: "{{namespace}}/{{pod}}"}}},
	}
}
