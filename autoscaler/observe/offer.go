package observe

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// offer is the node's allocatable devices, allocated or not. It is nil where a resource counts
// parts of GPUs: its dialect says less about GPUs than the GPUs themselves.
func offer(n *corev1.Node) *demand.Demand {
	var each []demand.Demand
	for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
		amount := n.Status.Allocatable[name]
		one, err := demandOf(string(name))
		if one.Fraction.Shares() {
			continue // no whole GPU, and counted by Others
		}
		if err != nil && !strings.HasPrefix(string(name), "nvidia.com/") {
			continue // a device of unknown size is no whole GPU
		}
		if err != nil || one.Fraction != nil {
			return nil
		}
		if one.Zero() || amount.Value() <= 0 {
			continue
		}
		d, err := demand.FromResources(map[string]int64{string(name): amount.Value()})
		if err != nil {
			return nil
		}
		each = append(each, d)
	}
	all, err := demand.Sum(each...)
	if err != nil { // GPUs of two vendors: the planner knows no such node
		return nil
	}
	return &all
}

// spread distributes the instances that a node advertises over its GPUs, as many to each as fit,
// where no config defines the layout; nil where they do not fit. The result is one possible layout:
// the real one is as unknown as the allocations.
func spread(offered map[string]int64, gpus []plan.GPU, tables mig.Tables) partition.NodeLayout {
	if len(offered) == 0 || len(gpus) == 0 {
		return nil
	}
	left := maps.Clone(offered)
	out := make(partition.NodeLayout, len(gpus))
	for i := range gpus {
		table, ok := tables.ForModel(gpus[i].Model.Name)
		if !ok {
			return nil
		}
		out[i] = partition.GPULayout{MIG: true, Counts: map[string]int{}}
		var have mig.Layout
		for _, resource := range slices.Sorted(maps.Keys(left)) {
			name, _ := mig.ProfileOfResource(resource)
			profile, ok := table.Exact(name)
			// Each GPU gets its share of what is left, so that equal GPUs stay equal.
			for share := (left[resource] + int64(len(gpus)-i) - 1) / int64(len(gpus)-i); ok && share > 0; share-- {
				next, fits := table.Arrange(nil, append(mig.Counts(have), mig.Count{Profile: profile, N: 1}))
				if !fits {
					break
				}
				have = next
				out[i].Counts[name]++
				left[resource]--
			}
		}
	}
	for _, n := range left {
		if n > 0 {
			return nil
		}
	}
	return out
}
