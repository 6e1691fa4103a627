package observe

import (
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// fromPods gives GPUs the allocations that the node's bound pods prove, where no exporter reports
// them; false where pods do not prove them. A device plugin that gives whole GPUs gives each to one
// pod, so the pods are enough, for any maker's GPUs. Which pod has which GPU is not known; the GPUs
// are taken as equal. The replicas of time-sliced GPUs are known by their pods alone: an exporter
// reports the GPUs. MIG devices and GPUs in parts need an exporter, and so do GPUs in use that could be
// repartitioned, which depends on which of them are free.
func fromPods(in nodeInput, gpus []plan.GPU) bool {
	if in.facts.divided != nil {
		return fromParts(in, gpus)
	}
	if in.reading == nil && in.facts.shares > 0 {
		return fromShares(in, gpus)
	}
	offered := in.facts.Allocatable
	if in.reading != nil && !timeSliced(in.node) || len(gpus) == 0 || !givesWholeGPUs(in) || offered.GPUs != len(gpus) {
		return false
	}
	var allocatedTo []string
	for _, p := range in.bound {
		if p.Unreadable != "" || len(p.Demand.MIG) > 0 || p.Demand.Fraction != nil || p.Demand.GPUs > len(gpus) {
			return false
		}
		allocatedTo = append(allocatedTo, slices.Repeat([]string{p.Key()}, p.Demand.GPUs)...)
	}
	if len(allocatedTo) > len(gpus) {
		return false
	}
	if _, isMIG := in.tables.ForModel(gpus[0].Model.Name); isMIG && len(allocatedTo) > 0 {
		return false
	}
	slices.Sort(allocatedTo)
	for i := range gpus {
		forgetAllocations(&gpus[i])
		gpus[i].MIG, gpus[i].AllocationKnown = false, true
		if i < len(allocatedTo) {
			gpus[i].AllocatedTo = allocatedTo[i : i+1 : i+1]
		}
	}
	return true
}

// fromShares is fromPods for GPUs that are given in shares: which pod shares which GPU is not known.
func fromShares(in nodeInput, gpus []plan.GPU) bool {
	for i := range gpus {
		forgetAllocations(&gpus[i])
		gpus[i].AllocationKnown = true
	}
	n := 0
	for _, p := range in.bound {
		if p.Unreadable != "" || len(p.Demand.MIG) > 0 || p.Demand.GPUs > 0 {
			return false
		}
		if p.Demand.Fraction != nil {
			c := &gpus[n%len(gpus)]
			c.AllocatedTo = append(c.AllocatedTo, p.Key())
			n++
		}
	}
	return true
}

// givesWholeGPUs reports whether the node's device plugin gives whole GPUs and nothing else.
func givesWholeGPUs(in nodeInput) bool {
	n, offered := in.node, in.facts.Allocatable
	if offered == nil || offered.GPUs == 0 || len(offered.MIG) > 0 || offered.Fraction != nil || beingRepartitioned(n) {
		return false
	}
	if strings.HasSuffix(n.Labels[partition.ProductLabel], partition.SharedSuffix) && !timeSliced(n) {
		return false
	}
	for _, c := range in.facts.report.GPUs {
		if c.MIG {
			return false
		}
	}
	for name := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), instancePrefix) {
			return false // an instance may still be allocated
		}
	}
	return n.Labels[partition.StrategyLabel] != "single"
}
