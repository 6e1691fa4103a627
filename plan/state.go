package plan

import (
	"slices"
	"strings"
	"time"
)

// forgetAfter is how long a stamp outlives its pool or node: a node that only
// flickers must not lose its cooldown.
const forgetAfter = time.Hour

// recordFree records since when nodes and GPUs have been free, where the snapshot
// has no time. Records of allocated ones are dropped.
func (w *world) recordFree() {
	var free []Stamp
	note := func(name string) {
		at, ok := stampAt(w.state.FreeSince, name)
		if !ok || at.After(w.now) {
			at = w.now
		}
		free = append(free, Stamp{name, at})
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 {
			continue
		}
		if unknown := w.emptySinceUnknown(n); unknown {
			note(n.name)
		}
		for c := range n.GPUs {
			if f := &n.facts[c]; f.free && f.since.IsZero() {
				note(gpuName(n.name, n.GPUs[c].Index))
			}
		}
	}
	w.state.FreeSince = sortedStamps(free)
}

// emptySinceUnknown reports an empty node for which the snapshot does not have the
// time since when.
func (w *world) emptySinceUnknown(n *nodeState) bool {
	unknown := len(n.GPUs) == 0
	for c := range n.GPUs {
		if !n.facts[c].free {
			return false
		}
		unknown = unknown || n.facts[c].since.IsZero()
	}
	return n.bound == 0 && unknown
}

// gpuFree reports whether a GPU is known to be free, and since when; a zero time is
// unknown.
func gpuFree(c *GPU) (bool, time.Time) {
	if !c.AllocationKnown || len(c.AllocatedTo) > 0 {
		return false, time.Time{}
	}
	since, unknown := c.IdleSince, false
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.AllocatedTo != "" {
			return false, time.Time{}
		}
		unknown = unknown || in.IdleSince.IsZero() && c.IdleSince.IsZero()
		since = later(since, in.IdleSince)
	}
	if unknown {
		return true, time.Time{}
	}
	return true, since
}

// nextState is the state to persist, without stamps of pools and nodes that were
// deleted more than forgetAfter ago.
func (w *world) nextState() State {
	real := w.nodes
	for len(real) > 0 && real[len(real)-1].virtual {
		real = real[:len(real)-1]
	}
	isNode := func(name string) bool {
		_, ok := slices.BinarySearchFunc(real, name, func(n nodeState, s string) int { return strings.Compare(n.name, s) })
		return ok
	}
	isPool := func(name string) bool { return w.poolIndex(name) >= 0 }
	m := w.state
	m.LastScaleUp = w.pruned(m.LastScaleUp, isPool)
	m.LastScaleDown = w.pruned(m.LastScaleDown, isPool)
	m.LastRepartition = w.pruned(m.LastRepartition, isNode)
	m.LastReplace, m.LastDrain = w.pruned(m.LastReplace, isPool), w.pruned(m.LastDrain, isPool)
	m.Failures = slices.DeleteFunc(slices.Clone(m.Failures), func(f Failure) bool { return w.now.Sub(f.At) > longestPause+forgetAfter })
	m.Removed = slices.DeleteFunc(slices.Clone(m.Removed), func(g Growth) bool { return w.now.Sub(g.At) >= removalWindow })
	m.Grown = slices.DeleteFunc(slices.Clone(m.Grown), func(g Growth) bool { return w.now.Sub(g.At) >= time.Hour })
	return m
}

func (w *world) pruned(list []Stamp, exists func(string) bool) []Stamp {
	return slices.DeleteFunc(slices.Clone(list), func(s Stamp) bool {
		return !exists(s.Name) && w.now.Sub(s.At) > forgetAfter
	})
}
