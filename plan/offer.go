package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

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

// allocationDelay is the usual time from a node's creation, or from a pod's
// binding, until allocations are known.
const allocationDelay = 30 * time.Second

// knownAt is when the allocation of a node's GPU is likely to be known. It is
// false after NodeOverdue where other nodes of the pool show that it can be
// known.
func (w *world) knownAt(n *nodeState) (time.Time, bool) {
	since, ok := stampAt(w.state.UnknownSince, n.name)
	if !ok {
		since = w.now
	}
	if w.now.Sub(since) > w.policy.NodeOverdue && !w.pools[n.pool].unobserved {
		return time.Time{}, false
	}
	// The longer it has lasted, the longer it is likely to last.
	return w.now.Add(max(allocationDelay, w.now.Sub(since))), true
}

// recordUnknown records since when nodes have had GPUs of unknown allocation,
// and finds pools that have nothing but such nodes for longer than NodeOverdue:
// a new node would be as unknown, and could not be repartitioned either.
func (w *world) recordUnknown() {
	known, stale := make([]bool, len(w.pools)), make([]bool, len(w.pools))
	var unknown []Stamp
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || len(n.GPUs) == 0 {
			continue
		}
		if !n.unknown {
			known[n.pool] = true
			continue
		}
		at, ok := stampAt(w.state.UnknownSince, n.name)
		if !ok || at.After(w.now) {
			at = w.now
		}
		stale[n.pool] = stale[n.pool] || w.now.Sub(at) > w.policy.NodeOverdue
		unknown = append(unknown, Stamp{n.name, at})
	}
	w.state.UnknownSince = sortedStamps(unknown)
	for i := range w.pools {
		w.pools[i].unobserved = stale[i] && !known[i]
	}
}
