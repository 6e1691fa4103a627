package boards

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Health: GPUs that are broken, at risk, or not reported.
func Health() board.Board {
	// The variable is not called "model": on other boards "model" has the autoscaler's names. A link would carry a
	// value to a board where it matches nothing.
	product := byLabel("product", "Product", "GPU models, as the driver names them.", metric.GPUInfo, metric.LabelModel)
	return board.Board{
		UID: HealthUID, Title: "gpuscale / Health",
		About: "Which GPUs are broken and why, XID and memory errors, temperatures, throttled clocks, power, and GPUs that are no longer reported.",
		Vars:  append(where(), product, nodeVar(metric.GPUInfo)),
		Marks: []board.Mark{xids()},
		Rows: []board.Row{
			{Title: "Now", Panels: healthNow()},
			{Title: "Broken and lost", Panels: broken()},
			{Title: "XID errors", Panels: xidErrors()},
			{Title: "Memory errors and heat", Panels: memoryErrors()},
			{Title: "Clocks and power", Panels: clocks()},
		},
	}
}

var (
	inNode    = board.In(metric.LabelNode, "node")
	inProduct = board.In(metric.LabelModel, "product")
)

// someAreBad has no colour at zero. The series begin with the first event, so zero does not prove health.
var someAreBad = from(1, board.Bad)

// chosen filters GPU series by the selected products. It joins with gpu_info, since not every series has a
// product label.
func chosen(expr string) string {
	return "(" + expr + " and on (" + join(device) + ") " + board.Of(metric.GPUInfo, inNode, inProduct) + ")"
}

// chosenEver is chosen for past events, whose GPU or node may be gone now. It filters nodes by their
// products.
func chosenEver(expr string) string {
	return "(" + expr + " and on (cluster,node) last_over_time(" + recorded("node:gpu_info:count", inNode, inProduct) + "[$__range] @ end()))"
}

// health is 1 or 0 for each GPU. If two exporters report a GPU, the worse value counts.
func health() string {
	return "min by (" + join(device) + ") (" + chosen(board.Of(metric.GPUHealthy, inNode)) + ")"
}

func healthNow() []board.Panel {
	seen := "group by (" + join(device) + ") (" + board.Of(metric.GPUInfo, inNode, inProduct) + ")"
	errorsIn := board.Sum(chosenEver(board.Happened(board.Of(metric.GPUXIDErrorsTotal, inNode), "$__range")))
	return []board.Panel{
		stat(3, "GPUs", "GPUs that exporters report.", noExporter, "count("+seen+")", board.Count, nil),
		stat(3, "Healthy", "Share of healthy GPUs among those whose health is known.", noExporter, "avg("+health()+")", board.Percent, board.Falling(0.95, 1)),
		stat(3, "Broken", "GPUs that their exporter reports as broken.", noExporter, "sum("+health()+" == bool 0)", board.Count, board.Rising(1, 1)),
		stat(3, "Health unknown", "GPUs whose health the exporter does not report.", noExporter,
			"count("+seen+" unless on ("+join(device)+") "+board.Of(metric.GPUHealthy, inNode)+") or 0 * count("+seen+")", board.Count, from(1, board.Watch)),
		stat(3, "XID errors", "XID errors in the selected time. The series start with the first error: 0 means that exporters answer and there was no error.",
			"no exporter answers (see Overview)."+noRules, board.ZeroWhile(errorsIn, board.Of(metric.ExporterUp)+" == 1"), board.Count, someAreBad),
		stat(3, "Gone", "GPUs that exporters reported at the beginning of the selected time and do not report now: the node was removed, the GPU fell off the bus, or the exporter stopped. The table below lists them.",
			noExporter, "count("+gone()+") or 0 * count("+seen+")", board.Count, from(1, board.Watch)),
		stat(3, "Oldest value", "Age of the oldest current value of a GPU.", noExporter, "max("+chosen(board.Of(metric.GPUSampleAgeSeconds, inNode))+")", board.Seconds, board.Rising(60, 180)),
		stat(3, "Energy", "Energy that the GPUs used in the selected time, without the rest of the servers.", noExporter+noRules,
			board.Sum(board.Integral(recorded("node:gpu_energy_joules:rate5m", inNode, inProduct)))+" / 3.6e6", board.KWh, nil),
	}
}

// gone returns the GPUs that were reported at the beginning of the selected time and are not reported now.
func gone() string {
	series := board.Of(metric.GPUInfo, inNode, inProduct)
	by := "group by (" + join(device) + ") "
	return by + "(" + series + " offset $__range) unless " + by + "(" + series + ")"
}

func broken() []board.Panel {
	return []board.Panel{
		{Kind: board.Table, Title: "Broken GPUs", W: 12, Unit: board.Count, Absent: "no GPU is broken, or " + noExporter,
			About:   "GPUs that their exporter reports as broken. lost: the GPU fell off the bus. xid_N: it had that XID error. row_remap_failure and health_…: the driver reports it. docs/exporter.md says for each reason whether to reset or to replace the GPU.",
			Queries: []board.Query{{Expr: "group by (cluster,node,gpu,gpu_uuid,reason) (" + chosen(board.Of(metric.GPUHealthy, inNode)) + " == 0)"}},
			Columns: gpuColumns(column(metric.LabelReason, "Reason"), column(metric.LabelGPUUUID, "UUID"), board.Column{Value: 1, Title: "State", Words: []board.Word{{Value: 1, Text: "broken", Colour: board.Bad}}})},
		{Kind: board.Table, Title: "Gone GPUs", W: 12, Unit: board.Count, Absent: "no GPU is gone, or " + noExporter,
			About:   "GPUs that exporters reported at the beginning of the selected time and do not report now.",
			Queries: []board.Query{{Expr: gone()}},
			Columns: gpuColumns(board.Column{Value: 1, Title: "State", Words: []board.Word{{Value: 1, Text: "gone", Colour: board.Watch}}})},
		{Kind: board.Timeline, Title: "GPUs that were broken", Unit: board.Count, H: 6, Absent: "no GPU was broken in the selected time, or " + noExporter + noRules,
			About:   "When GPUs were broken in the selected time. In a gap the GPU was healthy, or not reported.",
			Words:   []board.Word{{Value: 1, Text: "broken", Colour: board.Bad}},
			Queries: []board.Query{{Expr: board.Most(recorded("gpu:gpu_unhealthy:max", inNode, inProduct), append(device, metric.LabelReason)...), Legend: "{{node}} GPU {{gpu}}: {{reason}}"}}},
	}
}

func xidErrors() []board.Panel {
	series := board.Of(metric.GPUXIDErrorsTotal, inNode)
	return []board.Panel{
		{Kind: board.Series, Title: "XID errors by code", W: 12, Unit: board.Count, Stack: true, Absent: "there was no XID error in the selected time, or " + noExporter + noRules,
			About:   "XID errors in the interval of each point. 13, 31, 43 and 45 are mostly faults of the program. docs/exporter.md lists those after which a GPU counts as broken.",
			Queries: []board.Query{{Expr: board.Sum(chosenEver(board.Happened(series, "$__rate_interval")), metric.LabelXID) + " > 0", Legend: "XID {{xid}}"}}},
		{Kind: board.Table, Title: "XID errors by GPU", W: 12, Unit: board.Count, Absent: "there was no XID error in the selected time, or " + noExporter + noRules,
			About:   "XID errors in the selected time.",
			Queries: []board.Query{{Expr: board.Sum(chosenEver(board.Happened(series, "$__range")), append(device, metric.LabelXID)...) + " > 0"}},
			Columns: gpuColumns(column(metric.LabelXID, "XID"), board.Column{Value: 1, Title: "Times", Sort: true, Scale: board.Scale{{Colour: board.Bad}}})},
	}
}

// byUUID converts a DCGM series to our labels. The series identifies a GPU only by its UUID, and instances
// repeat the values of their GPU.
func byUUID(expr string) string {
	return fmt.Sprintf("%s * on (cluster,gpu_uuid) group_left (node,gpu) group by (cluster,node,gpu,gpu_uuid) (%s)",
		fmt.Sprintf(`label_replace(%s,%q,"$1",%q,"(.+)")`, board.Most(expr, "cluster", metric.LabelUUID), metric.LabelGPUUUID, metric.LabelUUID),
		board.Of(metric.GPUInfo, inNode, inProduct))
}

func memoryErrors() []board.Panel {
	some := func(title string, scale board.Scale, names ...metric.Read) board.Column {
		var series []string
		for _, r := range names {
			series = append(series, board.Named(r.Name)+" > 0")
		}
		return board.Column{Expr: board.Most(byUUID(strings.Join(series, " or ")), device...), Title: title, Scale: scale, Sort: title == "Double-bit"}
	}
	return []board.Panel{
		board.Panel{Kind: board.Table, Title: "Memory errors by GPU", W: 12, Unit: board.Count, Absent: "there were no such errors, the exporter's counters file does not list the field (docs/report.md), or " + noExporter,
			About: "GPUs that had memory errors. Single-bit errors were corrected; a double-bit error ends the program. A remapped row is replaced for good, and a few are normal over the life of a GPU. If a row could not be remapped, replace the GPU.",
		}.With(gpuColumns(some("Single-bit", nil, metric.DCGMSingleBitErrors), some("Double-bit", someAreBad, metric.DCGMDoubleBitErrors),
			some("Corr. rows", nil, metric.DCGMRowsCorrectable, metric.DCGMRowsCorrectableNew),
			some("Uncorr. rows", board.Scale{{Colour: board.Watch}}, metric.DCGMRowsUncorrectable, metric.DCGMRowsUncorrectableNew),
			some("Remap failed", someAreBad, metric.DCGMRowRemapFailure, metric.DCGMRowRemapFailureNew))...),
		{Kind: board.Series, Title: "Hottest GPUs", W: 6, Unit: board.Celsius, Absent: "the exporter reports no temperatures, or " + noExporter + noRules,
			About:   "Temperature of the hottest GPU of a node, for the eight nodes that are hottest now. GPUs lower their clocks near a limit of their model, often between 83 and 90 °C: see Clocks throttled.",
			Queries: []board.Query{{Expr: eightNodes(board.Most, "node:gpu_temperature_celsius:max"), Legend: "{{node}}"}}},
		{Kind: board.Series, Title: "Hottest memory", W: 6, Unit: board.Celsius, Absent: "GPUs of this model do not measure it, or " + noExporter + noRules,
			About:   "Temperature of the hottest GPU memory of a node, for the eight nodes that are hottest now. Memory throttles near 95 to 105 °C.",
			Queries: []board.Query{{Expr: eightNodes(board.Most, "node:gpu_memory_temperature_celsius:max"), Legend: "{{node}}"}}},
	}
}

// eightNodes returns the eight nodes that now have the largest values of a rule, over the whole selected
// time.
func eightNodes(merge func(string, ...string) string, record string) string {
	return board.Steady("topk", 8, recorded(record, inNode, inProduct), func(s string) string { return merge(s, metric.LabelNode) }, metric.LabelNode)
}

func clocks() []board.Panel {
	return []board.Panel{
		{Kind: board.Series, Title: "Clocks throttled", W: 12, Unit: board.Percent, Absent: "no clocks were throttled, or " + noExporter + noRules,
			About: "Mean share of time in which GPUs lowered their clocks, by reason. Reasons overlap. Thermal reasons: the cooling does not suffice. Power reasons: often the configured power limit.",
			Queries: []board.Query{{Expr: "sum by (reason) (" + recorded("node:gpu_throttle_seconds:rate5m", inNode, inProduct) + ") / on () group_left () sum(" + recorded("node:gpu_info:count", inNode, inProduct) + ")",
				Legend: "{{reason}}"}}},
		{Kind: board.Series, Title: "Power by node", W: 12, Unit: board.Watts, Stack: true, Absent: noExporter + noRules,
			About:   "Mean power of the GPUs of a node over five minutes, for the eight nodes with the most power now.",
			Queries: []board.Query{{Expr: eightNodes(board.Sum, "node:gpu_energy_joules:rate5m"), Legend: "{{node}}"}}},
	}
}
