package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Fleet: GPUs, how many of them work, and what becomes of the rest.
func Fleet() board.Board {
	return board.Board{
		UID: FleetUID, Title: "gpuscale / Fleet",
		About: "GPUs, how many of them work, what becomes of the rest, and pending demand.",
		Vars:  append(where(), poolVar(metric.AutoscalerGPUs), modelVar(metric.AutoscalerGPUs)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "Now", Panels: fleetNow()},
			{Title: "Where the GPUs are", Panels: fleetStates()},
			{Title: "Why free GPUs are unusable, and unserved demand", Panels: fleetWaste()},
			{Title: "Money and energy", Panels: fleetMoney()},
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
		return board.Panel{Kind: board.Stat, Title: title, About: about, Absent: noAutoscaler + noRules, Unit: unit, Scale: scale, Decimals: 0,
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
			{Expr: capacity(), Legend: "1 there"},
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
		perGroup("By pool", metric.LabelPool, "Node pool", &board.Link{Title: "Open the pool", UID: PoolsUID, Set: map[string]string{"pool": metric.LabelPool}}),
		perGroup("By model", metric.LabelModel, "Model", nil),
	}
}

// perGroup is a table of the fleet by a label.
func perGroup(title, label, heading string, link *board.Link) board.Panel {
	of := func(states ...string) string { return board.Sum(gpus(states...), label) }
	return board.Panel{
		Kind: board.Table, Title: title, W: 12, H: 6, Unit: board.Number,
		About:  "GPUs now, and the share of their time that was spent computing over the last minutes.",
		Absent: noAutoscaler + noRules,
		Queries: []board.Query{
			{Expr: of()}, {Expr: of("allocated")}, {Expr: of("free")}, {Expr: of("fragmented", "stranded")}, {Expr: of("sick", "unready")},
			{Expr: board.Share(spent([]string{label}, "busy"), capacity(label))},
		},
		Columns: []board.Column{
			{Label: label, Title: heading, Link: link, Width: 160}, {Value: 1, Title: "GPUs", Sort: true}, {Value: 2, Title: "Allocated"}, {Value: 3, Title: "Free"},
			{Value: 4, Title: "Unusable", Scale: board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Warn}}},
			{Value: 5, Title: "Sick", Scale: board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Bad}}},
			{Value: 6, Title: "Computing", Unit: board.Percent, Scale: board.Falling(0.2, 0.5)},
		},
	}
}

func fleetWaste() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Unusable, by cause", W: 8, Stack: true, Steps: true, Unit: board.Number,
			About:   "odd, unpartitioned, shape and scattered: another layout or another placement of the same pods would help. unreachable, no_cpu and no_memory: the node prevents it.",
			Absent:  noAutoscaler,
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerStrandedGPUs, inPool), metric.LabelCause), Legend: "{{cause}}"}}},
		{Kind: board.Table, Title: "Unserved demand", W: 8, Unit: board.Number,
			About:   "GPUs that pending pods request, by the shape of one pod and the reason. docs/reasons.md has what to do about each.",
			Absent:  "no demand is unserved, or " + noAutoscaler,
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerPendingGPUs), metric.LabelShape, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelShape, Title: "Shape"}, {Label: metric.LabelReason, Title: "Reason",
				Link: &board.Link{Title: "Decisions", UID: DecisionsUID}}, {Value: 1, Title: "GPUs", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Series, Title: "Slices requested", W: 8, Unit: board.Number, Steps: true,
			About:  "Compute slices that pending pods request, and those of them without supply, present or upcoming.",
			Absent: noAutoscaler,
			Hues:   []board.Hue{{Name: "pending", Colour: board.Plain}, {Name: "unserved", Colour: board.Bad}},
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerPendingSlices)), Legend: "pending"},
				{Expr: board.Most(board.Of(metric.AutoscalerUnservedSlices)), Legend: "unserved"}}},
	}
}

func fleetMoney() []board.Panel {
	cost := board.Of(metric.AutoscalerCost, inPool)
	// Pools without a price have no cost, so the product omits them.
	working := board.Share(spent([]string{metric.LabelPool}, "busy"), capacity(metric.LabelPool))
	return []board.Panel{
		{Kind: board.Stat, Title: "Cost", W: 4, H: 8, Unit: board.PerHour, Absent: noPrice, Queries: []board.Query{{Expr: board.Sum(cost)}},
			About: "Cost of the existing nodes per hour, in the currency of the pools' prices."},
		{Kind: board.Stat, Title: "Cost of not computing", W: 4, H: 8, Unit: board.PerHour, Scale: board.Scale{{Colour: board.Ink}}, Absent: noPrice + " Or " + noAutoscaler + noRules,
			About:   "The cost times the share of GPU time not spent computing, pool by pool.",
			Queries: []board.Query{{Expr: "sum(" + board.Sum(cost, metric.LabelPool) + " * (1 - " + working + "))"}}},
		{Kind: board.Series, Title: "Cost by pool", W: 8, Unit: board.PerHour, Stack: true, Steps: true, Absent: noPrice,
			About:   "Cost of the existing nodes per hour.",
			Queries: []board.Query{{Expr: board.Sum(cost, metric.LabelPool), Legend: "{{pool}}"}}},
		{Kind: board.Series, Title: "Power", W: 8, Unit: board.Watts, Absent: noExporter + noRules, Hues: []board.Hue{{Name: "all GPUs", Colour: board.Warn}},
			About:   "Power of the cluster's GPUs, without their servers. The variables for pool and model do not apply here.",
			Queries: []board.Query{{Expr: board.Sum(recorded("cluster:gpu_power_watts:sum")), Legend: "all GPUs"}}},
	}
}
