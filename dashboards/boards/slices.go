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
	words := []board.Word{{Value: 0, Text: "uncut", Colour: "#b877d9"}}
	for _, g := range rules.ComputeSizes() {
		name := fmt.Sprintf("%dg", g)
		words = append(words,
			board.Word{Value: float64(rules.SliceFree + g), Text: name + " free", Colour: "#8ab8ff"},
			board.Word{Value: float64(rules.SliceHeld + g), Text: name, Colour: "#3274d9"},
			board.Word{Value: float64(rules.SliceIdle + g), Text: name + " idle", Colour: board.Warn},
			board.Word{Value: float64(rules.SliceUnknown + g), Text: name + " ?", Colour: board.Quiet})
	}
	return words
}

// sliceMap is how every memory slice stands, labelled card and slice, with an offset
// or none.
func sliceMap(ago string) string {
	return board.Most(board.Named(rules.SliceStanding, inNode)+ago, append(append([]string{}, card...), rules.CardLabel, rules.SliceLabel)...)
}

// mapAge is how old the exporter's map of holders may be, in seconds.
const mapAge = "120"

// freshMap are the nodes whose exporter knows who holds what.
func freshMap() string {
	return "group by (cluster,node) (" + board.Of(metric.GPUAttributionAgeSeconds) + " < " + mapAge + ")"
}

// cutAnew are the cards that have an instance now that they had not at the beginning
// of the time looked at, or the reverse.
func cutAnew() string {
	at := func(moment string) string {
		return "group by (" + join(card) + ",start,size,profile) (" + board.Of(metric.GPUInstanceInfo, inNode) + " @ " + moment + "())"
	}
	first, last := at("start"), at("end")
	return "group by (" + join(card) + ") (" + last + " unless " + first + " or " + first + " unless " + last + ")"
}

func join(labels []string) string { return strings.Join(labels, ",") }
