package boards

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// sliceLabel is the label that the queries here make: the memory slice's number.
const sliceLabel = "slice"

// A slice's value is the compute slices of its instance's profile, plus ten times
// how it stands; 0 is a slice in no instance. A number, since PromQL has nothing
// else to hand to Grafana for a cell.
const (
	sliceFree    = 0
	sliceHeld    = 10
	sliceIdle    = 20
	sliceUnknown = 30
)

// idleAfter is when a slice counts as held without being used, and mapAge how old
// the exporter's map of holders may be.
const (
	idleAfter = "600"
	mapAge    = "120"
)

// sliceWords are the words and colours of the values.
func sliceWords() []board.Word {
	words := []board.Word{{Value: 0, Text: "uncut", Colour: "#b877d9"}}
	for _, g := range computeSizes() {
		name := fmt.Sprintf("%dg", g)
		words = append(words,
			board.Word{Value: float64(sliceFree + g), Text: name + " free", Colour: "#8ab8ff"},
			board.Word{Value: float64(sliceHeld + g), Text: name, Colour: "#3274d9"},
			board.Word{Value: float64(sliceIdle + g), Text: name + " idle", Colour: board.Warn},
			board.Word{Value: float64(sliceUnknown + g), Text: name + " ?", Colour: board.Quiet})
	}
	return words
}

// shape is a profile's size, which is what decides which slices an instance covers.
type shape struct{ compute, memory int }

// shapes returns where instances of each shape may begin, of all products.
func shapes() map[shape][]int {
	all := map[shape][]int{}
	for _, model := range mig.Models() {
		t, _ := mig.ForModel(model)
		for _, p := range t.Profiles() {
			s := shape{p.Compute, p.Memory}
			all[s] = append(all[s], t.Starts(p)...)
		}
	}
	for s, starts := range all {
		slices.Sort(starts)
		all[s] = slices.Compact(starts)
	}
	return all
}

func computeSizes() []int {
	sizes := map[int]bool{}
	for s := range shapes() {
		sizes[s.compute] = true
	}
	return slices.Sorted(maps.Keys(sizes))
}

// sliceMap is the value of every memory slice of the cards in MIG mode, labelled
// card and slice, with an offset or none.
func sliceMap(ago string) string {
	cut, uncut := []string{}, []string{}
	for k := range memorySlices() {
		number := strconv.Itoa(k)
		cut = append(cut, label(covering(k, ago), number))
		uncut = append(uncut, label("group by ("+join(card)+") ("+board.Of(metric.GPUInfo, board.In(metric.LabelNode, "node"), `mig="true"`, having(k))+ago+") * 0", number))
	}
	by := append(append([]string{}, card...), sliceLabel)
	value := "max by (" + join(by) + ") ((" + strings.Join(cut, " or ") + ") + on (" + join(thing) + ") group_left () " + standing(ago) + ")"
	return `label_join(` + value + " or " + strings.Join(uncut, " or ") + `,"card"," / ","node","gpu")`
}

func label(expr, number string) string {
	return fmt.Sprintf(`label_replace(%s,%q,%q,"","")`, expr, sliceLabel, number)
}

// covering selects the instances that cover a slice; their value is the profile's
// compute slices.
func covering(k int, ago string) string {
	var all []string
	byShape := shapes()
	for _, s := range slices.SortedFunc(maps.Keys(byShape), func(a, b shape) int {
		return cmp.Or(cmp.Compare(a.compute, b.compute), cmp.Compare(a.memory, b.memory))
	}) {
		var starts []string
		for _, start := range byShape[s] {
			if start <= k && k < start+s.memory {
				starts = append(starts, strconv.Itoa(start))
			}
		}
		if len(starts) > 0 {
			all = append(all, fmt.Sprintf("%s%s * %d", board.Of(metric.GPUInstanceInfo, board.In(metric.LabelNode, "node"), fmt.Sprintf(`profile=~"%dg.*"`, s.compute),
				board.Is(metric.LabelSize, strconv.Itoa(s.memory)), board.Is(metric.LabelStart, starts...)), ago, s.compute))
		}
	}
	return strings.Join(all, " or ")
}

// standing is what is added for how an instance stands. Who holds it is known only
// where the exporter's map of holders is fresh: otherwise nobody has said that it is
// free.
func standing(ago string) string {
	by := "group by (" + join(thing) + ") "
	idle := by + "(" + board.Of(metric.GPUIdleSeconds) + ago + " > " + idleAfter + ")"
	held := by + "(" + board.Of(metric.GPUHeld) + ago + ")"
	there := by + "(" + board.Of(metric.GPUInstanceInfo) + ago + ")"
	return fmt.Sprintf("(%s * %d or %s * %d or (%s and on (cluster,node) %s) * %d or %s * %d)",
		idle, sliceIdle, held, sliceHeld, there, freshMap(ago), sliceFree, there, sliceUnknown)
}

// freshMap are the nodes whose exporter knows who holds what.
func freshMap(ago string) string {
	return "group by (cluster,node) (" + board.Of(metric.GPUAttributionAgeSeconds) + ago + " < " + mapAge + ")"
}

// cutAnew are the cards that have an instance now that they had not at the beginning
// of the time looked at, or the reverse.
func cutAnew() string {
	at := func(moment string) string {
		return "group by (" + join(card) + ",start,size,profile) (" + board.Of(metric.GPUInstanceInfo, board.In(metric.LabelNode, "node")) + " @ " + moment + "())"
	}
	first, last := at("start"), at("end")
	return "group by (" + join(card) + ") (" + last + " unless " + first + " or " + first + " unless " + last + ")"
}

// memorySlices is the most that a product has.
func memorySlices() int {
	most := 0
	for _, model := range mig.Models() {
		t, _ := mig.ForModel(model)
		most = max(most, t.MemorySlices())
	}
	return most
}

// usual is how many memory slices a product has that is not named otherwise.
const usual = 8

// having matches the products, by the driver's names, that have a slice k.
func having(k int) string {
	names := map[string]bool{}
	for _, model := range mig.Models() {
		t, _ := mig.ForModel(model)
		if n := t.MemorySlices(); n != usual && (n > k) != (usual > k) {
			names[driverName(model)] = true
		}
	}
	list := slices.Sorted(maps.Keys(names))
	if k >= usual {
		return fmt.Sprintf("model=~%q", strings.Join(list, "|"))
	}
	return fmt.Sprintf("model!~%q", strings.Join(list, "|"))
}

// driverName matches what the driver calls a product that we call "A30-24GB".
func driverName(model string) string {
	words := strings.Split(model, "-")
	if last := words[len(words)-1]; strings.HasSuffix(last, "GB") {
		words = words[:len(words)-1]
	}
	return ".*" + strings.Join(words, ".") + ".*"
}

func join(labels []string) string { return strings.Join(labels, ",") }
