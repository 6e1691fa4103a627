package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// SliceStanding is the name of the rule that records the standing of every memory slice of GPUs in MIG mode.
// SliceLabel is the slice's number, and GPULabel the GPU's name.
const (
	SliceStanding = "slice:gpu_instance_info:standing"
	SliceLabel    = "slice"
	GPULabel      = "device"
)

// A slice's value is ten times its standing plus the compute slices of its instance's profile. 0 means that
// the slice is in no instance. Both are in one number because a Grafana cell gets only a number from PromQL.
const (
	SliceFree      = 0
	SliceAllocated = 10
	SliceIdle      = 20
	SliceUnknown   = 30
)

// idleAfter is the idle time in seconds after which an allocated slice counts as unused. MapAge is the age
// after which attribution is stale.
const (
	idleAfter = "600"
	MapAge    = "120"
)

// layouts records the GPUs' MIG layouts.
func layouts() []Rule {
	return []Rule{{
		Record: "node:gpu_instance_info:count",
		Expr:   count(largest(metric.GPUInstanceInfo.Name, append(Thing[1:], metric.LabelProfile)...), metric.LabelNode, metric.LabelProfile),
		Help:   "MIG instances of a node, by profile.", Labels: []string{metric.LabelNode, metric.LabelProfile},
	}, {
		Record: SliceStanding, Expr: sliceMap(),
		Help:   "A memory slice of a GPU in MIG mode: the compute slices of its instance's profile, plus 10 where it is allocated, 20 where it is allocated idle, 30 where it is unknown; 0 in no instance.",
		Labels: []string{metric.LabelNode, metric.LabelGPU, GPULabel, SliceLabel},
	}}
}

// Device identifies a GPU, and Thing what can be allocated: a GPU or an instance. Other labels of a GPU
// change with a new driver and must not split it in two.
var (
	Device = []string{sources.LabelCluster, metric.LabelNode, metric.LabelGPU}
	Thing  = slices.Clip(append(slices.Clone(Device), metric.LabelGPUInstanceID))
)

// shape is the size of a profile. It decides which slices an instance covers.
type shape struct{ compute, memory int }

// shapes returns for each shape where instances may begin, over all products.
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

// ComputeSizes returns the numbers of compute slices that profiles have, ascending.
func ComputeSizes() []int {
	sizes := map[int]bool{}
	for s := range shapes() {
		sizes[s.compute] = true
	}
	return slices.Sorted(maps.Keys(sizes))
}

// sliceMap returns the value of every memory slice of the GPUs in MIG mode.
func sliceMap() string {
	in, outside := []string{}, []string{} // an instance, and any
	for k := range memorySlices() {
		number := strconv.Itoa(k)
		in = append(in, label(covering(k), number))
		outside = append(outside, label("group by ("+join(Device)+") ("+metric.GPUInfo.Name+"{mig=\"true\","+having(k)+"}) * 0", number))
	}
	by := append(append([]string{}, Device...), SliceLabel)
	value := "max by (" + join(by) + ") ((" + strings.Join(in, " or ") + ") + on (" + join(Thing) + ") group_left () " + standing() + ")"
	return `label_join(` + value + " or " + strings.Join(outside, " or ") + `, "` + GPULabel + `", " / ", "node", "gpu")`
}

func label(expr, number string) string {
	return fmt.Sprintf(`label_replace(%s,%q,%q,"","")`, expr, SliceLabel, number)
}

// covering selects the instances that cover slice k. The value is the number of the profile's compute slices.
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

// like matches a label against several values. A single value is matched as text.
func like(values []string) string {
	if len(values) == 1 {
		return "="
	}
	return "=~"
}

// standing is the part of the value that shows an instance's standing. Where attribution is stale, the
// standing is unknown, not free.
func standing() string {
	by := "group by (" + join(Thing) + ") "
	idle := by + "(" + metric.GPUIdleSeconds.Name + " > " + idleAfter + ")"
	allocated := by + "(" + metric.GPUHeld.Name + ")"
	there := by + "(" + metric.GPUInstanceInfo.Name + ")"
	fresh := "group by (cluster, node) (" + metric.GPUAttributionAgeSeconds.Name + " < " + MapAge + ")"
	return fmt.Sprintf("(%s * %d or %s * %d or (%s and on (cluster, node) %s) * %d or %s * %d)",
		idle, SliceIdle, allocated, SliceAllocated, there, fresh, SliceFree, there, SliceUnknown)
}

// memorySlices is the largest number of memory slices of any product.
func memorySlices() int {
	most := 0
	for _, model := range mig.Models() {
		t, _ := mig.ForModel(model)
		most = max(most, t.MemorySlices())
	}
	return most
}

// usual is the number of memory slices that a product has by default.
const usual = 8

// having matches the driver's names of products that have slice k.
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

// driverName matches the driver's name for a product that we call "A30-24GB", for example.
func driverName(model string) string {
	words := strings.Split(model, "-")
	if last := words[len(words)-1]; strings.HasSuffix(last, "GB") {
		words = words[:len(words)-1]
	}
	return ".*" + strings.Join(words, ".") + ".*"
}

func join(labels []string) string { return strings.Join(labels, ", ") }
