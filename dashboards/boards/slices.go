package boards

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// sliceWords are the words and colours of the values that the rule records.
func sliceWords() []board.Word {
	words := []board.Word{{Value: 0, Text: "unpartitioned", Colour: "#b877d9"}}
	for _, g := range rules.ComputeSizes() {
		name := fmt.Sprintf("%dg", g)
		words = append(words,
			board.Word{Value: float64(rules.SliceFree + g), Text: name + " free", Colour: "#8ab8ff"},
			board.Word{Value: float64(rules.SliceAllocated + g), Text: name, Colour: "#3274d9"},
			board.Word{Value: float64(rules.SliceIdle + g), Text: name + " idle", Colour: board.Warn},
			board.Word{Value: float64(rules.SliceUnknown + g), Text: name + " ?", Colour: board.Muted})
	}
	return words
}

// sliceMap is the standing of every memory slice, labelled GPU and slice, with an
// optional offset.
func sliceMap(ago string) string {
	return board.Most(recorded(rules.SliceStanding, inNode)+ago, append(append([]string{}, device...), rules.GPULabel, rules.SliceLabel)...)
}

// mapAge is the age in seconds from which attribution is stale.
const mapAge = "120"

// freshMap are the nodes with fresh attribution.
func freshMap() string {
	return "group by (cluster,node) (" + board.Of(metric.GPUAttributionAgeSeconds) + " < " + mapAge + ")"
}

// repartitioned are the GPUs with an instance now that they did not have at the
// beginning of the selected time, or the reverse.
func repartitioned() string {
	at := func(moment string) string {
		return "group by (" + join(device) + ",start,size,profile) (" + board.Of(metric.GPUInstanceInfo, inNode) + " @ " + moment + "())"
	}
	first, last := at("start"), at("end")
	return "group by (" + join(device) + ") (" + last + " unless " + first + " or " + first + " unless " + last + ")"
}

func join(labels []string) string { return strings.Join(labels, ",") }
