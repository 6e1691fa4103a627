package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Health answers: which cards are broken, which are about to be, and which does
// nobody hear of?
func Health() board.Board {
	return board.Board{
		UID: HealthUID, Title: "gpuscale / Health",
		About: "Which cards are broken and why, their XID errors, what holds their clocks down, what they draw, and which nobody hears of any more.",
		Vars:  append(where(), productVar(), nodeVar(metric.GPUInfo)),
		Marks: []board.Mark{xids()},
		Rows: []board.Row{
			{Title: "Now", Panels: healthNow()},
			{Title: "Broken and lost", Panels: broken()},
			{Title: "XID errors", Panels: xidErrors()},
			{Title: "Clocks and power", Panels: clocks()},
		},
	}
}

var inNode = board.In(metric.LabelNode, "node")

// chosen narrows a series of cards to the products looked at: not every series has
// the product as a label.
func chosen(expr string) string {
	return "(" + expr + " and on (" + join(card) + ") " + board.Of(metric.GPUInfo, inNode, board.In(metric.LabelModel, "product")) + ")"
}

// chosenEver is chosen for what happened: the card may be gone by now.
func chosenEver(expr string) string {
	return "(" + expr + " and on (" + join(card) + ") last_over_time(" + board.Of(metric.GPUInfo, inNode, board.In(metric.LabelModel, "product")) + "[$__range]))"
}

// health is 1 or 0 for each card. Seen by two exporters, the worse counts.
func health() string {
	return "min by (" + join(card) + ") (" + chosen(board.Of(metric.GPUHealthy, inNode)) + ")"
}

func healthNow() []board.Panel {
	seen := "group by (" + join(card) + ") (" + board.Of(metric.GPUInfo, inNode, board.In(metric.LabelModel, "product")) + ")"
	errorsIn := board.Sum(chosenEver(board.Happened(board.Of(metric.GPUXIDErrorsTotal, inNode), "$__range")))
	return []board.Panel{
		{Kind: board.Stat, Title: "Cards", Unit: board.Count, W: 3, Absent: noExporter, About: "Cards that exporters see.", Queries: []board.Query{{Expr: "count(" + seen + ")"}}},
		{Kind: board.Stat, Title: "Healthy", Unit: board.Percent, W: 3, Absent: noExporter, Scale: board.Falling(0.95, 1),
			About: "Share of the cards whose health is known that are healthy.", Queries: []board.Query{{Expr: "avg(" + health() + ")"}}},
		{Kind: board.Stat, Title: "Broken", Unit: board.Count, W: 3, Absent: noExporter, Scale: board.Rising(1, 1), About: "Cards that their exporter calls broken.",
			Queries: []board.Query{{Expr: "sum(" + health() + " == bool 0)"}}},
		{Kind: board.Stat, Title: "Health unknown", Unit: board.Count, W: 3, Absent: noExporter, Scale: board.Scale{{Colour: board.Ink}, {From: 1, Colour: board.Watch}},
			About:   "Cards that are seen and whose health nobody tells.",
			Queries: []board.Query{{Expr: "count(" + seen + " unless on (" + join(card) + ") " + board.Of(metric.GPUHealthy, inNode) + ") or 0 * count(" + seen + ")"}}},
		{Kind: board.Stat, Title: "XID errors", Unit: board.Count, W: 3, Absent: "no exporter answers (see Self).", Scale: board.NoneIsPlain(),
			About:   "XID errors in the time looked at. The series begin with the first error, so 0 means: none, while exporters answer.",
			Queries: []board.Query{{Expr: board.ZeroWhile(errorsIn, board.Of(metric.ExporterUp)+" == 1")}}},
		{Kind: board.Stat, Title: "Gone", Unit: board.Count, W: 3, Absent: noExporter, Scale: board.Scale{{Colour: board.Ink}, {From: 1, Colour: board.Watch}},
			About:   "Cards that were there at the beginning of the time looked at and are not now: nodes that were given back, cards that fell off the bus, exporters that fell silent. The table below says which.",
			Queries: []board.Query{{Expr: "count(" + gone() + ") or 0 * count(" + seen + ")"}}},
		{Kind: board.Stat, Title: "Oldest value", Unit: board.Seconds, W: 3, Absent: noExporter, Scale: board.Rising(60, 180),
			About: "Age of the oldest value of a card that is still told.", Queries: []board.Query{{Expr: "max(" + chosen(board.Of(metric.GPUSampleAgeSeconds, inNode)) + ")"}}},
		{Kind: board.Stat, Title: "Energy", Unit: board.KWh, W: 3, Absent: noExporter,
			About:   "What the cards drew in the time looked at, without their servers.",
			Queries: []board.Query{{Expr: board.Sum(board.Grown(board.Of(metric.GPUEnergyJoulesTotal, inNode, board.In(metric.LabelModel, "product")))) + " / " + board.JoulesPerKWh}}},
	}
}

// gone are cards that were seen at the beginning of the time and are not now.
func gone() string {
	series := board.Of(metric.GPUInfo, inNode, board.In(metric.LabelModel, "product"))
	by := "group by (" + join(card) + ") "
	return by + "(" + series + " offset $__range) unless " + by + "(" + series + ")"
}

func broken() []board.Panel {
	everSick := "(min by (" + join(card) + ") (min_over_time(" + board.Of(metric.GPUHealthy, inNode) + "[$__range] @ end())) == 0)"
	return []board.Panel{
		{Kind: board.Table, Title: "Broken cards", W: 12, Unit: board.Count, Absent: "no card is called broken, or " + noExporter,
			About:   "Cards that their exporter calls broken, and why: lost is gone from the bus, xid_N condemned by that error, row_remap_failure and health_… what the driver's own watches say. docs/exporter.md says which need a reset and which a new card.",
			Queries: []board.Query{{Expr: "group by (cluster,node,gpu,gpu_uuid,reason) (" + chosen(board.Of(metric.GPUHealthy, inNode)) + " == 0)"}},
			Columns: []board.Column{{Label: "cluster", Title: "Cluster"}, {Label: metric.LabelNode, Title: "Node"}, {Label: metric.LabelGPU, Title: "Card", Width: 60}, {Label: metric.LabelReason, Title: "Reason"},
				{Label: metric.LabelGPUUUID, Title: "UUID"}, {Value: 1, Title: "State", Words: []board.Word{{Value: 1, Text: "broken", Colour: board.Bad}}}}},
		{Kind: board.Table, Title: "Gone cards", W: 12, Unit: board.Count, Absent: "every card that was there is there, or " + noExporter,
			About:   "Cards that were seen at the beginning of the time looked at and are not now.",
			Queries: []board.Query{{Expr: gone()}},
			Columns: []board.Column{{Label: "cluster", Title: "Cluster"}, {Label: metric.LabelNode, Title: "Node"}, {Label: metric.LabelGPU, Title: "Card", Width: 60},
				{Value: 1, Title: "State", Words: []board.Word{{Value: 1, Text: "gone", Colour: board.Watch}}}}},
		{Kind: board.Timeline, Title: "Cards that were broken", Unit: board.Count, H: 6, Absent: "no card was called broken in this time, or " + noExporter,
			About:   "Cards that were called broken at any moment of the time looked at.",
			Words:   board.YesNo("healthy", board.Good, "broken", board.Bad),
			Queries: []board.Query{{Expr: health() + " and on (" + join(card) + ") " + everSick, Legend: "{{node}} card {{gpu}}"}}},
	}
}

func xidErrors() []board.Panel {
	series := board.Of(metric.GPUXIDErrorsTotal, inNode)
	return []board.Panel{
		{Kind: board.Series, Title: "XID errors by code", W: 12, Unit: board.Count, Stack: true, Absent: "none of this code was counted in this time, or " + noExporter,
			About:   "Errors in the time of one point. 13, 31, 43 and 45 are mostly the program's fault; 48, 63, 64, 74, 79, 94, 95, 119 and 140 are mostly the card's.",
			Queries: []board.Query{{Expr: board.Sum(chosenEver(board.Happened(series, "$__rate_interval")), metric.LabelXID) + " > 0", Legend: "XID {{xid}}"}}},
		{Kind: board.Table, Title: "XID errors by card", W: 12, Unit: board.Count, Absent: "none was counted in this time, or " + noExporter,
			About:   "Errors in the time looked at.",
			Queries: []board.Query{{Expr: board.Sum(chosenEver(board.Happened(series, "$__range")), append(card, metric.LabelXID)...) + " > 0"}},
			Columns: []board.Column{{Label: "cluster", Title: "Cluster"}, {Label: metric.LabelNode, Title: "Node"}, {Label: metric.LabelGPU, Title: "Card", Width: 60}, {Label: metric.LabelXID, Title: "XID"},
				{Value: 1, Title: "Times", Sort: true, Scale: board.Scale{{Colour: board.Bad}}}}},
	}
}

func clocks() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Clocks held down", W: 12, Unit: board.Percent, Absent: noExporter,
			About:   "Mean share of time in which the cards' clocks were held down, by reason. Reasons overlap. Thermal ones want better cooling; power ones are often the limit that was set.",
			Queries: []board.Query{{Expr: "avg by (reason) (" + chosen(board.Rate(board.Of(metric.GPUThrottleSecondsTotal, inNode))) + ")", Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Power by node", W: 12, Unit: board.Watts, Stack: true, Absent: noExporter,
			About:   "What the cards of a node draw together. The eight nodes that draw most.",
			Queries: []board.Query{{Expr: "topk(8, " + board.Sum(chosen(board.Of(metric.GPUPowerWatts, inNode)), metric.LabelNode) + ")", Legend: "{{node}}"}}},
	}
}
