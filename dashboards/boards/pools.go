package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Pools: their size, what changed it, how long a node takes, and what fails.
func Pools() board.Board {
	return board.Board{
		UID: PoolsUID, Title: "gpuscale / Node pools",
		About: "How large each pool is and may be, what changed it, how long a node takes, what fails, and what it costs.",
		Vars:  append(where(), poolVar(metric.AutoscalerPoolSize)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "Now", Panels: poolsNow()},
			{Title: "Size", Panels: poolSize()},
			{Title: "What happened", Panels: poolEvents()},
		},
	}
}

const noPool = "no pool is known, or " + noAutoscaler

func nodes(kind string) string {
	return board.Sum(board.Of(metric.AutoscalerPoolSize, inPool, board.Is(metric.LabelKind, kind)), metric.LabelPool)
}

func poolsNow() []board.Panel {
	t := board.Panel{Kind: board.Table, Title: "Pools", H: 6, Unit: board.Number, Absent: "the pool states none, or " + noPool,
		About:   "Target is the number requested from the provider, nodes those that exist, ready those that work.",
		Columns: []board.Column{{Label: metric.LabelPool, Title: "Node pool", Width: 200, Link: &board.Link{Title: "GPUs of the pool", UID: FleetUID, Set: map[string]string{"pool": metric.LabelPool}}}}}
	for _, k := range []struct {
		kind, title string
		scale       board.Scale
	}{{"min", "Min", nil}, {"max", "Max", nil}, {"target", "Target", nil}, {"size", "Nodes", nil}, {"ready", "Ready", nil},
		{"unready", "Unready", board.Scale{{Colour: board.Ink}, {From: 1, Colour: board.Bad}}}, {"upcoming", "Upcoming", nil}} {
		t.Queries = append(t.Queries, board.Query{Expr: nodes(k.kind)})
		t.Columns = append(t.Columns, board.Column{Value: len(t.Queries), Title: k.title, Scale: k.scale, Sort: k.kind == "size"})
	}
	add := func(expr string, c board.Column) {
		t.Queries = append(t.Queries, board.Query{Expr: expr})
		c.Value = len(t.Queries)
		t.Columns = append(t.Columns, c)
	}
	add(board.Most(board.Of(metric.AutoscalerPoolBackoff, inPool), metric.LabelPool), board.Column{Title: "Provider", Words: board.YesNo("backing off", board.Bad, "ok", board.Good)})
	add(board.Most(board.Of(metric.AutoscalerFrozen, inPool), metric.LabelPool), board.Column{Title: "Frozen", Words: board.YesNo("frozen", board.Watch, "no", board.Ink)})
	add(board.Most(board.Of(metric.AutoscalerPoolPrice, inPool), metric.LabelPool), board.Column{Title: "A node", Unit: board.PerHour})
	add(board.Sum(board.Of(metric.AutoscalerCost, inPool), metric.LabelPool), board.Column{Title: "Cost", Unit: board.PerHour})
	return []board.Panel{t}
}

func poolSize() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Nodes ready and requested", Unit: board.Number, Steps: true, Absent: noPool,
			About: "Where the target is above ready, nodes are starting, or fail to.",
			Queries: []board.Query{{Expr: nodes("target"), Legend: "{{pool}} target"}, {Expr: nodes("ready"), Legend: "{{pool}} ready"},
				{Expr: nodes("max"), Legend: "{{pool}} max"}}},
		{Kind: board.Timeline, Title: "Provider and freeze", Unit: board.Count, W: 12, Absent: noPool,
			About: "Backing off: no nodes are requested of the pool for a while after its provider failed. Frozen: decisions are shown and nothing is done.",
			Words: []board.Word{{Value: 0, Text: "in service", Colour: board.Good}, {Value: 1, Text: "backing off", Colour: board.Bad}, {Value: 2, Text: "frozen", Colour: board.Watch}, {Value: 3, Text: "frozen, backing off", Colour: board.Bad}},
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerPoolBackoff, inPool), metric.LabelPool) + " + on (pool) 2 * " +
				board.Most(board.Of(metric.AutoscalerFrozen, inPool), metric.LabelPool), Legend: "{{pool}}"}}},
		{Kind: board.Series, Title: "GPUs by state", Unit: board.Number, Stack: true, Steps: true, Hues: board.States(), Absent: noAutoscaler,
			About: "GPUs of the pools chosen.", Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerGPUs, inPool), metric.LabelState) + " > 0", Legend: "{{state}}"}}},
		{Kind: board.Series, Title: "Cost", Unit: board.PerHour, Stack: true, Steps: true, Absent: noPrice,
			About: "Cost of the existing nodes per hour, ready or not.", Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerCost, inPool), metric.LabelPool), Legend: "{{pool}}"}}},
	}
}

func poolEvents() []board.Panel {
	ready := func(q float64, word string) board.Query {
		return board.Query{Expr: board.QuantileIn(q, metric.AutoscalerNodeReady, "$__range", []string{inPool}, metric.LabelPool), Legend: "{{pool}} " + word}
	}
	return []board.Panel{
		{Kind: board.Table, Title: "Actions on pools", W: 12, Unit: board.Number, Absent: notYet,
			About: "Actions in the selected time, and their reasons. skipped: the cluster had changed before the action, and was planned again.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerActions, inPool), "$__range"),
				metric.LabelVerb, metric.LabelPool, metric.LabelReason, metric.LabelResult) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelVerb, Title: "Action"}, {Label: metric.LabelPool, Title: "Node pool"}, {Label: metric.LabelReason, Title: "Reason"},
				{Label: metric.LabelResult, Title: "Result"}, {Value: 1, Title: "Times", Unit: board.Count, Sort: true}}},
		{Kind: board.Bars, Title: "Request to ready", W: 12, Unit: board.Seconds, Absent: "no node was added in this time, or " + noAutoscaler, Scale: board.Scale{{Colour: board.Plain}},
			About: "Time from the request for a node until it was ready and showed its GPUs, over the selected time.", Queries: []board.Query{ready(0.5, "median"), ready(0.95, "p95")}},
		{Kind: board.Table, Title: "What failed", W: 12, Unit: board.Count, Absent: "nothing failed in this time, or " + noAutoscaler,
			About:   "Failed actions on a pool, by the action's reason. NothingCame: nodes were requested and none came.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerPoolFailures, inPool), "$__range"), metric.LabelPool, metric.LabelReason) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelPool, Title: "Node pool"}, {Label: metric.LabelReason, Title: "Reason"}, {Value: 1, Title: "Times", Sort: true, Scale: board.Scale{{Colour: board.Bad}}}}},
		{Kind: board.Table, Title: "Nodes interrupted", W: 12, Unit: board.Count, Absent: "no node was interrupted in this time, or " + noAutoscaler,
			About:   "Nodes with a notice of their provider: spot interruptions and planned maintenance.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerInterruptions, inPool), "$__range"), metric.LabelPool) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelPool, Title: "Node pool"}, {Value: 1, Title: "Times", Sort: true, Scale: board.Scale{{Colour: board.Warn}}}}},
	}
}
