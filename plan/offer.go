package plan

import (
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// discountAllocated takes off devices allocated to pods that the snapshot does not
// have as bound: a pod that is deleted from the API can keep its GPU for a while.
// It takes nothing off where allocations are unknown.
func (n *nodeState) discountAllocated() {
	for i := range n.free {
		if f := &n.free[i]; !n.operating() && !n.unknownMIG {
			f.N = min(f.N, mig.CountOf(n.unallocated, f.Profile))
		}
	}
	if n.plain > 0 {
		n.whole = min(n.whole, n.plain-n.plainAllocated)
	}
}

// limitToOffer limits a node's free capacity to its allocatable resources less
// the requests of its bound pods. That needs neither attribution nor layouts. A
// sick GPU's devices are never counted, though its device plugin may still
// offer them.
func (w *world) limitToOffer(n *nodeState, single bool) {
	offer := n.Allocatable
	if offer == nil || n.operating() {
		return // while a GPU is repartitioned the device plugin offers nothing
	}
	n.whole = min(n.whole, clampCount(offer.GPUs))
	if single {
		return
	}
	model := n.model
	if model == "" && len(n.GPUs) > 0 {
		model = n.GPUs[0].Model.Name
	}
	table, ok := w.table(model)
	if !ok {
		return
	}
	n.model, n.free = model, nil
	for _, in := range offer.MIG {
		if p, ok := table.Exact(in.Name); ok {
			n.free = added(n.free, p, clampCount(in.Count))
		}
	}
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if device.Health != gpu.Sick || !device.AllocationKnown || device.Model.Name != model {
			continue
		}
		for i := range device.Instances {
			n.free = added(n.free, device.Instances[i].Profile, -1)
		}
	}
}

// halfOffered reports a node whose device plugin has just started: it offers
// less than its GPUs are known to be partitioned into.
func (w *world) halfOffered(n *nodeState) bool {
	if n.Allocatable == nil || n.operating() {
		return false
	}
	var repartition []mig.Count
	unknown := false
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if !device.MIG || device.Model.Name != n.model || device.Health == gpu.Sick {
			continue
		}
		unknown = unknown || !device.AllocationKnown
		for i := range device.Instances {
			repartition = added(repartition, device.Instances[i].Profile, 1)
		}
	}
	if !unknown || len(repartition) == 0 {
		return false
	}
	table, ok := w.table(n.model)
	if !ok {
		return false
	}
	for _, c := range repartition {
		offered := 0
		for _, in := range n.Allocatable.MIG {
			if p, ok := table.Exact(in.Name); ok && p == c.Profile {
				offered += clampCount(in.Count)
			}
		}
		if offered < c.N {
			return true
		}
	}
	return false
}
