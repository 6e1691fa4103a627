package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// SliceStanding is the record of how every memory slice stands, of the cards in MIG
// mode; SliceLabel is the slice's number there, and CardLabel the card's name.
const (
	SliceStanding = "slice:gpu_instance_info:standing"
	SliceLabel    = "slice"
	CardLabel     = "card"
)

// A slice's value is the compute slices of its instance's profile, plus ten times
// how it stands; 0 is a slice in no instance. A number, since PromQL has nothing
// else to hand to Grafana for a cell.
const (
	SliceFree    = 0
	SliceHeld    = 10
	SliceIdle    = 20
	SliceUnknown = 30
)

// idleAfter is when a slice counts as held without being used, and mapAge how old
// the exporter's map of holders may be.
const (
	idleAfter = "600"
	mapAge    = "120"
)

// layouts is how cards are cut.
func layouts() []Rule {
	return []Rule{{
		Record: "node:gpu_instance_info:count",
		Expr:   count(largest(metric.GPUInstanceInfo.Name, append(thing[1:len(thing):len(thing)], metric.LabelProfile)...), metric.LabelNode, metric.LabelProfile),
		Help:   "MIG instances of a node, by profile.", Labels: []string{metric.LabelNode, metric.LabelProfile},
	}, {
		Record: SliceStanding, Expr: sliceMap(),
		Help:   "A memory slice of a card in MIG mode: the compute slices of its instance's profile, plus 10 where it is held, 20 where it is held idle, 30 where nobody knows; 0 in no instance.",
		Labels: []string{metric.LabelNode, metric.LabelGPU, CardLabel, SliceLabel},
	}}
}

// card and thing tell cards, and what can be held, apart. A new driver changes other
// labels of a card and must not make two of it.
var (
	card  = []string{labelCluster, metric.LabelNode, metric.LabelGPU}
	thing = append(append([]string{}, card...), metric.LabelGPUInstanceID)
)

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

// ComputeSizes are the compute slices that some profile has, ascending.
func ComputeSizes() []int {
	sizes := map[int]bool{}
	for s := range shapes() {
		sizes[s.compute] = true
	}
	return slices.Sorted(maps.Keys(sizes))
}

// sliceMap is the value of every memory slice of the cards in MIG mode.
func sliceMap() string {
	cut, uncut := []string{}, []string{}
	for k := range memorySlices() {
		number := strconv.Itoa(k)
		cut = append(cut, label(covering(k), number))
		uncut = append(uncut, label("group by ("+join(card)+") ("+metric.GPUInfo.Name+"{mig=\"true\","+having(k)+"}) * 0", number))
	}
	by := append(append([]string{}, card...), SliceLabel)
	value := "max by (" + join(by) + ") ((" + strings.Join(cut, " or ") + ") + on (" + join(thing) + ") group_left () " + standing() + ")"
	return `label_join(` + value + " or " + strings.Join(uncut, " or ") + `, "` + CardLabel + `", " / ", "node", "gpu")`
}

func label(expr, number string) string {
	return fmt.Sprintf(`label_replace(%s,%q,%q,"","")`, expr, SliceLabel, number)
}

// covering selects the instances that cover a slice; their value is the profile's
// compute slices.
func covering(k int) string {
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
			all = append(all, fmt.Sprintf(`%s{profile=~"%dg.*",size="%d",start%s%q} * %d`,
				metric.GPUInstanceInfo.Name, s.compute, s.memory, like(starts), strings.Join(starts, "|"), s.compute))
		}
	}
	return strings.Join(all, " or ")
}

// like is how a label is compared with some of several values: of one it is text.
func like(values []string) string {
	if len(values) == 1 {
		return "="
	}
	return "=~"
}

// standing is what is added for how an instance stands. Who holds it is known only
// where the exporter's map of holders is fresh: otherwise nobody has said that it is
// free.
func standing() string {
	by := "group by (" + join(thing) + ") "
	idle := by + "(" + metric.GPUIdleSeconds.Name + " > " + idleAfter + ")"
	held := by + "(" + metric.GPUHeld.Name + ")"
	there := by + "(" + metric.GPUInstanceInfo.Name + ")"
	fresh := "group by (cluster, node) (" + metric.GPUAttributionAgeSeconds.Name + " < " + mapAge + ")"
	return fmt.Sprintf("(%s * %d or %s * %d or (%s and on (cluster, node) %s) * %d or %s * %d)",
		idle, SliceIdle, held, SliceHeld, there, fresh, SliceFree, there, SliceUnknown)
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
	switch {
	case k >= usual:
		return fmt.Sprintf("model=~%q", strings.Join(list, "|"))
	case len(list) == 0:
		return `model!=""`
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

func join(labels []string) string { return strings.Join(labels, ", ") }
