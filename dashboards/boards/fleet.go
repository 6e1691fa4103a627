package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Fleet answers: what is there, what of it works, and where does the rest go?
func Fleet() board.Board {
	return board.Board{
		UID: FleetUID, Title: "gpuscale / Fleet",
		About: "What cards there are, what of them works, where the rest goes, and who waits.",
		Vars:  append(where(), poolVar(metric.AutoscalerGPUs), modelVar(metric.AutoscalerGPUs)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "Now", Panels: fleetNow()},
			{Title: "Where the cards are", Panels: fleetStates()},
			{Title: "Why free cards serve nobody, and who waits", Panels: fleetWaste()},
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

// spent is GPU time in some places, as cards.
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
	cards := board.Sum(gpus())
	return []board.Panel{
		stat("Cards", "Cards there are, whatever state they are in.", cards, board.Number, board.Neutral()),
		stat("Computing", "Share of all card time that was spent computing, over the last minutes.", board.Share(spent(nil, "busy"), capacity()), board.Percent, board.Falling(0.2, 0.5)),
		stat("Held", "Share of the cards that pods hold, in use or not.", board.Share(board.Sum(gpus("held")), cards), board.Percent, board.Neutral()),
		stat("Held and idle", "Share of all card time held by pods that hardly compute at all.", board.Share(spent(nil, "idle"), capacity()), board.Percent, board.Rising(0.1, 0.25)),
		stat("Free", "Cards, and parts of cards, that the next pod can have.", board.Sum(gpus("free")), board.Number, board.Neutral()),
		stat("Serve nobody", "Free cards, and parts of cards, that no waiting pod can use as things are: fragmented or stranded.", board.Share(board.Sum(gpus("fragmented", "stranded")), cards), board.Percent, board.Rising(0.05, 0.15)),
		stat("Sick or unready", "Cards reported broken, or on nodes that are not ready and should be.", board.Sum(gpus("sick", "unready")), board.Number, board.Rising(0.001, 1)),
		stat("Wanted in vain", "Cards that pending pods want and that nothing serves or is on its way for.", inVain(), board.Number, board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Watch}, {From: 8, Colour: board.Bad}}),
	}
}

// inVain has no series while nobody waits. That it is 0 then is another series' word.
func inVain() string {
	return board.ZeroWhile(board.Sum(board.Of(metric.AutoscalerWaitingGPUs)), board.Of(metric.AutoscalerUnservedSlices)+" == 0")
}

func fleetStates() []board.Panel {
	funnel := board.Panel{Kind: board.Bars, Title: "From capacity to work", W: 8,
		About:  "How much of the capacity is left at each step. What is lost between two bars has its own colour in the panels beside.",
		Absent: noAutoscaler + noRules, Unit: board.Number,
		Queries: []board.Query{
			{Expr: capacity(), Legend: "1 there"},
			{Expr: capacity() + " - " + spent(nil, "sick", "unready", "booting", "unknown"), Legend: "2 in service"},
			{Expr: spent(nil, heldPlaces...), Legend: "3 held by pods"},
			{Expr: spent(nil, "busy"), Legend: "4 computing"},
		}}
	return []board.Panel{
		funnel,
		{Kind: board.Series, Title: "Cards by state", About: "Every card, and every part of one, is in exactly one state. The height is the number of cards.",
			Absent: noAutoscaler, Unit: board.Number, W: 8, Stack: true, Steps: true, Hues: board.States(),
			Queries: []board.Query{{Expr: board.Sum(gpus(), metric.LabelState) + " > 0", Legend: "{{state}}"}}},
		{Kind: board.Series, Title: "Where card time goes", About: "Parts of all card time. Slack is the time between kernels of something that works; idle is held by something that hardly does.",
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
		About:  "Cards now, and the share of their time that was spent computing over the last minutes.",
		Absent: noAutoscaler + noRules,
		Queries: []board.Query{
			{Expr: of()}, {Expr: of("held")}, {Expr: of("free")}, {Expr: of("fragmented", "stranded")}, {Expr: of("sick", "unready")},
			{Expr: board.Share(spent([]string{label}, "busy"), capacity(label))},
		},
		Columns: []board.Column{
			{Label: label, Title: heading, Link: link, Width: 160}, {Value: 1, Title: "Cards", Sort: true}, {Value: 2, Title: "Held"}, {Value: 3, Title: "Free"},
			{Value: 4, Title: "Serve nobody", Scale: board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Warn}}},
			{Value: 5, Title: "Sick", Scale: board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Bad}}},
			{Value: 6, Title: "Computing", Unit: board.Percent, Scale: board.Falling(0.2, 0.5)},
		},
	}
}

func fleetWaste() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Serve nobody, by cause", W: 8, Stack: true, Steps: true, Unit: board.Number,
			About:   "odd, uncut, shape and scattered: another layout or another place for the same pods would help. unreachable, no_cpu and no_memory: the node stands in the way.",
			Absent:  noAutoscaler,
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerStrandedGPUs, inPool), metric.LabelCause), Legend: "{{cause}}"}}},
		{Kind: board.Table, Title: "Wanted and not served", W: 8, Unit: board.Number,
			About:   "Cards that pending pods want, by what one pod asks for and why it has to wait. docs/reasons.md says what to do about each.",
			Absent:  "nobody waits for anything that is not on its way, or " + noAutoscaler,
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerWaitingGPUs), metric.LabelShape, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelShape, Title: "A pod asks for"}, {Label: metric.LabelReason, Title: "Reason",
				Link: &board.Link{Title: "Decisions", UID: DecisionsUID}}, {Value: 1, Title: "Cards", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
		{Kind: board.Series, Title: "Slices wanted", W: 8, Unit: board.Number, Steps: true,
			About:  "Compute slices that pending pods want, and those of them that nothing serves and nothing is on its way for.",
			Absent: noAutoscaler,
			Hues:   []board.Hue{{Name: "pending", Colour: board.Plain}, {Name: "not served", Colour: board.Bad}},
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerPendingSlices)), Legend: "pending"},
				{Expr: board.Most(board.Of(metric.AutoscalerUnservedSlices)), Legend: "not served"}}},
	}
}

func fleetMoney() []board.Panel {
	cost := board.Of(metric.AutoscalerCost, inPool)
	// Pools without a price have no cost, so their time drops out of the product.
	working := board.Share(spent([]string{metric.LabelPool}, "busy"), capacity(metric.LabelPool))
	return []board.Panel{
		{Kind: board.Stat, Title: "Cost", W: 4, H: 8, Unit: board.PerHour, Absent: noPrice, Queries: []board.Query{{Expr: board.Sum(cost)}},
			About: "What the nodes that exist cost in an hour, in the currency of the pools' prices."},
		{Kind: board.Stat, Title: "Of it not computing", W: 4, H: 8, Unit: board.PerHour, Scale: board.Scale{{Colour: board.Ink}}, Absent: noPrice + " Or " + noAutoscaler + noRules,
			About:   "The cost times the share of card time not spent computing, pool by pool.",
			Queries: []board.Query{{Expr: "sum(" + board.Sum(cost, metric.LabelPool) + " * (1 - " + working + "))"}}},
		{Kind: board.Series, Title: "Cost by pool", W: 8, Unit: board.PerHour, Stack: true, Steps: true, Absent: noPrice,
			About:   "What the nodes that exist cost in an hour.",
			Queries: []board.Query{{Expr: board.Sum(cost, metric.LabelPool), Legend: "{{pool}}"}}},
		{Kind: board.Series, Title: "Power", W: 8, Unit: board.Watts, Absent: noExporter + noRules, Hues: []board.Hue{{Name: "all cards", Colour: board.Warn}},
			About:   "What the cards of the cluster draw, without their servers. The variables for pool and model do not choose here.",
			Queries: []board.Query{{Expr: board.Sum(recorded("cluster:gpu_power_watts:sum")), Legend: "all cards"}}},
	}
}
