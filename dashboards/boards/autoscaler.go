package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Autoscaler returns the board about use of GPUs, unserved demand, quotas, node pools, decisions, cost, and
// the state of autoscaler and adapter.
func Autoscaler() board.Board {
	model := byLabel("model", "Model", "GPU models, as the autoscaler names them.", metric.AutoscalerGPUs, metric.LabelModel)
	tenant := byLabel("tenant", "Tenant", "Tenants, by the name of their GPUQuota; (none) is everything without a quota.", metric.AutoscalerGPUSeconds, metric.LabelTenant)
	return board.Board{
		UID: AutoscalerUID, Title: "gpuscale / Autoscaler",
		About: "Where GPU time goes, unserved demand, quotas, node pools, decisions with their reasons, cost, and whether the autoscaler and the adapter work. docs/reasons.md explains each reason.",
		Vars:  append(where(), poolVar(metric.AutoscalerPoolSize), model, tenant, namespaceVar(metric.AutoscalerGPUSeconds)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "Now", Panels: fleetNow()},
			{Title: "Where the GPUs are", Panels: fleetStates()},
			{Title: "Unserved demand", Panels: demand()},
			{Title: "Quotas", Panels: quotas()},
			{Title: "Node pools", Panels: pools()},
			{Title: "Actions and cost", Panels: actions()},
			{Title: "Autoscaler and adapter", Panels: programs()},
		},
	}
}

func gpus(states ...string) string {
	if len(states) == 0 {
		return board.Of(metric.AutoscalerGPUs, inPool, inModel)
	}
	return board.Of(metric.AutoscalerGPUs, inPool, inModel, board.Is(metric.LabelState, states...))
}

// spent is the GPU time in the given places, as a number of GPUs.
func spent(by []string, places ...string) string {
	matchers := []string{inPool, inModel}
	if len(places) > 0 {
		matchers = append(matchers, board.Is(metric.LabelPlace, places...))
	}
	return board.Sum(recorded("pool:gpuscale_gpu_seconds:rate5m", matchers...), by...)
}

func capacity(by ...string) string {
	return board.Sum(recorded("pool:gpuscale_capacity_gpu_seconds:rate5m", inPool, inModel), by...)
}

func fleetNow() []board.Panel {
	const absent = noAutoscaler + noRules
	allGPUs := board.Sum(gpus())
	return []board.Panel{
		stat(3, "GPUs", "All GPUs, in any state.", absent, allGPUs, board.Number, nil),
		stat(3, "Computing", "Share of all GPU time in which GPUs computed, over the last five minutes.", absent, board.Share(spent(nil, "busy"), capacity()), board.Percent, board.Falling(0.2, 0.5)),
		stat(3, "Allocated", "Share of the GPUs that are allocated to pods, in use or not.", absent, board.Share(board.Sum(gpus("allocated")), allGPUs), board.Percent, nil),
		stat(3, "Allocated and idle", "Share of all GPU time that is allocated to pods that hardly compute, over the last five minutes.", absent, board.Share(spent(nil, "idle"), capacity()), board.Percent, board.Rising(0.1, 0.25)),
		stat(3, "Free", "GPUs, and parts of GPUs, that are free for the next pod.", absent, board.Sum(gpus("free")), board.Number, nil),
		stat(3, "Unusable", "Share of the GPUs that are free but that no pending pod can use: fragmented or stranded.", absent, board.Share(board.Sum(gpus("fragmented", "stranded")), allGPUs), board.Percent, board.Rising(0.05, 0.15)),
		stat(3, "Sick or unready", "GPUs that are broken, or on nodes that should be ready and are not.", absent, board.Sum(gpus("sick", "unready")), board.Number, board.Rising(0.001, 1)),
		stat(3, "Unserved", "GPUs that pending pods request and that neither present nor upcoming nodes have.", absent, unserved(), board.Number, board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Watch}, {From: 8, Colour: board.Bad}}),
	}
}

// unserved returns unserved demand. Its series exist only while there is some; while another autoscaler
// series exists, the value is 0.
func unserved() string {
	return board.ZeroWhile(board.Sum(board.Of(metric.AutoscalerPendingGPUs)), board.Of(metric.AutoscalerUnservedSlices)+" == 0")
}

func fleetStates() []board.Panel {
	funnel := board.Panel{Kind: board.Bars, Title: "From capacity to work", W: 8,
		About:  "How much of the capacity is left at each step. The panels beside show what is lost between two steps.",
		Absent: noAutoscaler + noRules, Unit: board.Number,
		Queries: []board.Query{
			{Expr: capacity(), Legend: "1 capacity"},
			{Expr: capacity() + " - " + spent(nil, "sick", "unready", "booting", "unknown"), Legend: "2 in service"},
			{Expr: spent(nil, allocatedPlaces...), Legend: "3 allocated to pods"},
			{Expr: spent(nil, "busy"), Legend: "4 computing"},
		}}
	return []board.Panel{
		funnel,
		{Kind: board.Series, Title: "GPUs by state", About: "Each GPU, or part of one, is in exactly one state. The height is the number of GPUs.",
			Absent: noAutoscaler, Unit: board.Number, W: 8, Stack: true, Steps: true, Hues: board.States(),
			Queries: []board.Query{{Expr: board.Sum(gpus(), metric.LabelState) + " > 0", Legend: "{{state}}"}}},
		{Kind: board.Series, Title: "Where GPU time goes", About: "All GPU time, by place. slack: allocated to a pod that computes, while it waits for work. idle: allocated to a pod that hardly computes.",
			Absent: noAutoscaler + noRules, Unit: board.Percent, W: 8, Max: 1, Stack: true, Hues: board.States(),
			Queries: []board.Query{{Expr: spent([]string{metric.LabelPlace}) + " / on () group_left () " + capacity() + " > 0", Legend: "{{place}}"}}},
		byPool(),
	}
}

// byPool is a table of the GPUs of each pool.
func byPool() board.Panel {
	const label = metric.LabelPool
	of := func(states ...string) string { return board.Sum(gpus(states...), label) }
	return board.Panel{
		Kind: board.Table, Title: "By pool", H: 6, Unit: board.Number, Absent: noAutoscaler + noRules,
		About: "GPUs now, and the share of their time in which they computed, over the last five minutes.",
	}.With(board.Column{Label: label, Title: "Node pool", Width: 160}, board.Column{Expr: of(), Title: "GPUs", Sort: true},
		board.Column{Expr: of("allocated"), Title: "Allocated"}, board.Column{Expr: of("free"), Title: "Free"},
		board.Column{Expr: of("fragmented", "stranded"), Title: "Unusable", Scale: from(0.001, board.Warn)},
		board.Column{Expr: of("sick", "unready"), Title: "Sick", Scale: from(0.001, board.Bad)},
		board.Column{Expr: board.Share(spent([]string{label}, "busy"), capacity(label)), Title: "Computing", Unit: board.Percent, Scale: board.Falling(0.2, 0.5)})
}
