package plan

import "time"

// allocationDelay is the usual time from a node's creation, or from a pod's
// binding, until allocations are known.
const allocationDelay = 30 * time.Second

// knownAt is when the allocation of a node's GPU is likely to be known. It is
// false after NodeOverdue where other nodes of the pool show that it can be
// known.
func (w *world) knownAt(n *nodeState) (time.Time, bool) {
	since := w.since(w.state.UnknownSince, n.name)
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
		at := w.since(w.state.UnknownSince, n.name)
		stale[n.pool] = stale[n.pool] || w.now.Sub(at) > w.policy.NodeOverdue
		unknown = append(unknown, Stamp{n.name, at})
	}
	w.state.UnknownSince = sortedStamps(unknown)
	for i := range w.pools {
		w.pools[i].unobserved = stale[i] && !known[i]
	}
}
