package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Autoscaler: what becomes of the GPUs, unserved demand, quotas, node pools, decisions
// and cost, and whether autoscaler and adapter work.
func Autoscaler() board.Board {
	model := byLabel("model", "Model", "Products, by the autoscaler's names.", metric.AutoscalerGPUs, metric.LabelModel)
	tenant := byLabel("tenant", "Tenant", "Tenants, by their quota's name; (none) is everything that no quota covers.", metric.AutoscalerGPUSeconds, metric.LabelTenant)
	return board.Board{
		UID: AutoscalerUID, Title: "gpuscale / Autoscaler",
		About: "What becomes of the GPUs, unserved demand, quotas, node pools, decisions and their reasons, cost, and whether autoscaler and adapter work. Reasons are those of docs/reasons.md.",
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

// spent is GPU time in some places, as GPUs.
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
	stat := func(title, about, expr string, unit board.Unit, scale board.Scale) board.Panel {
		return board.Panel{Kind: board.Stat, Title: title, About: about, Absent: noAutoscaler + noRules, Unit: unit, Scale: scale,
			W: 3, Queries: []board.Query{{Expr: expr}}}
	}
	allGPUs := board.Sum(gpus())
	return []board.Panel{
		stat("GPUs", "All GPUs, in any state.", allGPUs, board.Number, board.Neutral()),
		stat("Computing", "Share of all GPU time that was spent computing, over the last minutes.", board.Share(spent(nil, "busy"), capacity()), board.Percent, board.Falling(0.2, 0.5)),
		stat("Allocated", "Share of the GPUs allocated to pods, in use or not.", board.Share(board.Sum(gpus("allocated")), allGPUs), board.Percent, board.Neutral()),
		stat("Allocated and idle", "Share of all GPU time allocated to pods that hardly compute at all.", board.Share(spent(nil, "idle"), capacity()), board.Percent, board.Rising(0.1, 0.25)),
		stat("Free", "GPUs, and parts of GPUs, free for the next pod.", board.Sum(gpus("free")), board.Number, board.Neutral()),
		stat("Unusable", "Free GPUs, and parts of GPUs, that no pending pod can use: fragmented or stranded.", board.Share(board.Sum(gpus("fragmented", "stranded")), allGPUs), board.Percent, board.Rising(0.05, 0.15)),
		stat("Sick or unready", "GPUs reported broken, or on nodes that are not ready and should be.", board.Sum(gpus("sick", "unready")), board.Number, board.Rising(0.001, 1)),
		stat("Unserved", "GPUs that pending pods request without supply, present or upcoming.", unserved(), board.Number, board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Watch}, {From: 8, Colour: board.Bad}}),
	}
}

// unserved has no series without unserved demand. Another series shows that it is 0 then.
func unserved() string {
	return board.ZeroWhile(board.Sum(board.Of(metric.AutoscalerPendingGPUs)), board.Of(metric.AutoscalerUnservedSlices)+" == 0")
}

func fleetStates() []board.Panel {
	funnel := board.Panel{Kind: board.Bars, Title: "From capacity to work", W: 8,
		About:  "What is left of the capacity at each step. The loss between two bars has its own colour in the panels beside.",
		Absent: noAutoscaler + noRules, Unit: board.Number,
		Queries: []board.Query{
			{Expr: capacity(), Legend: "1 capacity"},
			{Expr: capacity() + " - " + spent(nil, "sick", "unready", "booting", "unknown"), Legend: "2 in service"},
			{Expr: spent(nil, allocatedPlaces...), Legend: "3 allocated to pods"},
			{Expr: spent(nil, "busy"), Legend: "4 computing"},
		}}
	return []board.Panel{
		funnel,
		{Kind: board.Series, Title: "GPUs by state", About: "Every GPU, and every part of one, is in exactly one state. The height is the number of GPUs.",
			Absent: noAutoscaler, Unit: board.Number, W: 8, Stack: true, Steps: true, Hues: board.States(),
			Queries: []board.Query{{Expr: board.Sum(gpus(), metric.LabelState) + " > 0", Legend: "{{state}}"}}},
		{Kind: board.Series, Title: "Where GPU time goes", About: "Parts of all GPU time. Slack is the time between kernels of something that computes; idle is allocated to something that hardly does.",
			Absent: noAutoscaler + noRules, Unit: board.Number, W: 8, Share: true, Hues: board.States(),
			Queries: []board.Query{{Expr: spent([]string{metric.LabelPlace}) + " > 0", Legend: "{{place}}"}}},
		byPool(),
	}
}

// byPool is a table of the GPUs of each pool.
func byPool() board.Panel {
	const label = metric.LabelPool
	of := func(states ...string) string { return board.Sum(gpus(states...), label) }
	return board.Panel{
		Kind: board.Table, Title: "By pool", H: 6, Unit: board.Number,
		About:  "GPUs now, and the share of their time that was spent computing over the last minutes.",
		Absent: noAutoscaler + noRules,
		Queries: []board.Query{
			{Expr: of()}, {Expr: of("allocated")}, {Expr: of("free")}, {Expr: of("fragmented", "stranded")}, {Expr: of("sick", "unready")},
			{Expr: board.Share(spent([]string{label}, "busy"), capacity(label))},
		},
		Columns: []board.Column{
			{Label: label, Title: "Node pool", Width: 160}, {Value: 1, Title: "GPUs", Sort: true}, {Value: 2, Title: "Allocated"}, {Value: 3, Title: "Free"},
			{Value: 4, Title: "Unusable", Scale: board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Warn}}},
			{Value: 5, Title: "Sick", Scale: board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Bad}}},
			{Value: 6, Title: "Computing", Unit: board.Percent, Scale: board.Falling(0.2, 0.5)},
		},
	}
}
