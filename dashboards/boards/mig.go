package boards

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// MIG returns the board about MIG layouts: which instances are allocated, what the layouts were before, and
// which free slices are unusable.
func MIG() board.Board {
	return board.Board{
		UID: MIGUID, Title: "gpuscale / MIG map",
		About: "MIG layouts of the GPUs, by memory slice: which slices are allocated and used, now and before, and which free slices no pod can use.",
		Vars:  append(where(), nodeVar(metric.GPUInstanceInfo), poolVar(metric.AutoscalerGPUs)),
		Marks: []board.Mark{scaling()},
		Rows: []board.Row{
			{Title: "The GPUs, slice by slice", Panels: sliceMaps()},
			{Title: "Over time", Panels: repartitioning()},
			{Title: "Profiles", Panels: profiles()},
		},
	}
}

const (
	noInstance = "the GPU has no such slice, or " + noExporter + noRules
	mapLegend  = "Blue: allocated. Light blue: free. Orange: allocated, and idle for ten minutes. Purple: in no instance. Grey: unknown."
)

func sliceMaps() []board.Panel {
	one := func(title, about, ago string) board.Panel {
		return board.Panel{Kind: board.Table, Title: title, H: 12, Unit: board.Count, Absent: noInstance, Words: sliceWords(),
			About:  about + " Each row is a GPU and each column a memory slice; the text is the profile of the MIG instance that the slice belongs to. " + mapLegend,
			Matrix: &board.Matrix{Row: rules.GPULabel, Column: rules.SliceLabel}, Columns: []board.Column{{Title: "GPU"}},
			Queries: []board.Query{{Expr: sliceMap(ago)}}}
	}
	return []board.Panel{
		one("Now", "At the end of the selected time.", ""),
		one("Before", "At the beginning of the selected time.", " offset $__range"),
	}
}

func repartitioning() []board.Panel {
	return []board.Panel{
		{Kind: board.Timeline, Title: "GPUs repartitioned", H: 12, Unit: board.Count, Absent: "no GPU was repartitioned in the selected time, or " + noExporter + noRules, Words: sliceWords(),
			About:   "Memory slices of the GPUs whose MIG layout changed between the beginning and the end of the selected time. " + mapLegend,
			Queries: []board.Query{{Expr: recorded(rules.SliceStanding, inNode) + " and on (" + join(device) + ") " + repartitioned(), Legend: "{{" + rules.GPULabel + "}} · {{slice}}"}}},
		{Kind: board.Series, Title: "Repartitions under way", W: 8, Unit: board.Count, Steps: true, Absent: noAutoscaler,
			Hues:    []board.Hue{{Name: "pending", Colour: board.Plain}, {Name: "succeeded", Colour: board.Good}, {Name: "failed", Colour: board.Bad}},
			About:   "Repartitions of nodes, by phase. The autoscaler rolls back an operation that is still pending at its deadline.",
			Queries: []board.Query{{Expr: board.Most(board.Of(metric.AutoscalerOperations), metric.LabelPhase), Legend: "{{phase}}"}}},
		{Kind: board.Series, Title: "Unusable free slices", W: 8, Unit: board.Number, Stack: true, Steps: true, Absent: noAutoscaler,
			About: "Free slices that no pending pod can use, in GPUs, by cause. odd: no profile fits the slices that are left. unpartitioned: they are in no GPU instance. shape: pods request other profiles. scattered: they are on too many GPUs.",
			Queries: []board.Query{{Expr: board.Sum(board.Of(metric.AutoscalerStrandedGPUs, inPool, board.Is(metric.LabelCause, "odd", "unpartitioned", "shape", "scattered")), metric.LabelCause),
				Legend: "{{cause}}"}}},
		{Kind: board.Table, Title: "Repartitions", W: 8, Unit: board.Count, Absent: notYet,
			About: "Changes of MIG layouts in the selected time. rollback: a failed or overdue repartition was undone.",
			Queries: []board.Query{{Expr: board.Sum(board.Happened(board.Of(metric.AutoscalerActions, inPool, board.Is(metric.LabelVerb, "repartition", "rollback")), "$__range"),
				metric.LabelVerb, metric.LabelReason, metric.LabelResult) + " > 0"}},
			Columns: []board.Column{{Label: metric.LabelVerb, Title: "Action"}, {Label: metric.LabelReason, Title: "Reason"}, {Label: metric.LabelResult, Title: "Result"}, {Value: 1, Title: "Times", Sort: true}}},
	}
}

func profiles() []board.Panel {
	inNode := board.In(metric.LabelNode, "node")
	instances := board.Most(board.Of(metric.GPUInstanceInfo, inNode), append(thing, metric.LabelProfile)...)
	allocatedTo := "group by (" + join(thing) + ") (" + board.Of(metric.GPUHeld) + ")"
	busy := board.Most(board.Of(metric.GPUInstanceBusyRatio, inNode), append(thing, metric.LabelProfile)...)
	memory := board.Most(board.Of(metric.GPUMemoryUsedBytes, inNode, `profile!=""`), append(thing, metric.LabelProfile)...)
	return []board.Panel{
		board.Panel{Kind: board.Table, Title: "Instances by profile", Unit: board.Number, W: 12, Absent: "no GPU has MIG instances, or " + noExporter,
			About: "Instances of each profile, how many are allocated, and how much of them is used.",
		}.With(column(metric.LabelProfile, "Profile"), board.Column{Expr: board.CountOf(instances, metric.LabelProfile), Title: "Instances", Sort: true},
			board.Column{Title: "Allocated", Expr: board.CountOf(instances+" and on ("+join(thing)+") "+allocatedTo, metric.LabelProfile) + " or 0 * " + board.CountOf(instances+" and on (cluster,node) "+freshMap(), metric.LabelProfile)},
			board.Column{Expr: "avg by (profile) (" + busy + ")", Title: "Mean busy", Unit: board.Percent, Scale: board.Falling(0.1, 0.4)},
			board.Column{Expr: "quantile by (profile) (0.95, " + memory + ")", Title: "Memory used, p95", Unit: board.Bytes}),
		{Kind: board.Series, Title: "Instances", W: 12, Unit: board.Count, Stack: true, Steps: true, Absent: noExporter + noRules,
			About: "MIG instances of the GPUs, by profile.", Queries: []board.Query{{Expr: board.Sum(recorded("node:gpu_instance_info:count", inNode), metric.LabelProfile), Legend: "{{profile}}"}}},
	}
}

// sliceWords are the words and colours of the values that the rule records.
func sliceWords() []board.Word {
	words := []board.Word{{Value: 0, Text: "unpartitioned", Colour: "#b877d9"}}
	for _, g := range rules.ComputeSizes() {
		name := fmt.Sprintf("%dg", g)
		words = append(words,
			board.Word{Value: float64(rules.SliceFree + g), Text: name + " free", Colour: board.Free},
			board.Word{Value: float64(rules.SliceAllocated + g), Text: name, Colour: "#3274d9"},
			board.Word{Value: float64(rules.SliceIdle + g), Text: name + " idle", Colour: "#ffb357" /* board.Warn, lighter: it has a word on it */},
			board.Word{Value: float64(rules.SliceUnknown + g), Text: name + " ?", Colour: board.Muted})
	}
	return words
}

// sliceMap is the standing of every memory slice, labelled with GPU and slice, optionally at an earlier time.
func sliceMap(ago string) string {
	return board.Most(recorded(rules.SliceStanding, inNode)+ago, append(append([]string{}, device...), rules.GPULabel, rules.SliceLabel)...)
}

// freshMap returns the nodes whose attribution is fresh.
func freshMap() string {
	return "group by (cluster,node) (" + board.Of(metric.GPUAttributionAgeSeconds) + " < " + rules.MapAge + ")"
}

// repartitioned returns GPUs whose instances at the end of the selected time differ from those at its
// beginning. GPUs that are not reported at both times are left out.
func repartitioned() string {
	at := func(d metric.Desc, moment string) string { return board.Of(d, inNode) + " @ " + moment + "()" }
	by := func(moment string) string {
		return "group by (" + join(device) + ",start,size,profile) (" + at(metric.GPUInstanceInfo, moment) + ")"
	}
	first, last := by("start"), by("end")
	return "(group by (" + join(device) + ") (" + last + " unless " + first + " or " + first + " unless " + last + ")" +
		" and on (" + join(device) + ") " + at(metric.GPUInfo, "start") + " and on (" + join(device) + ") " + at(metric.GPUInfo, "end") + ")"
}

func join(labels []string) string { return strings.Join(labels, ",") }
