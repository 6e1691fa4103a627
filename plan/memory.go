package plan

import (
	"slices"
	"strings"
	"time"
)

// forgetAfter is how long a stamp outlives its pool or node: a node that only
// flickers must not lose its cooldown.
const forgetAfter = time.Hour

// rememberFree notes since when nodes and cards have been seen without any
// holder, where the snapshot does not say. What is held again is forgotten.
func (w *world) rememberFree() {
	var free []Stamp
	note := func(name string) {
		at, ok := stampAt(w.memory.FreeSince, name)
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
		if unknown := w.emptyButSinceWhen(n); unknown {
			note(n.name)
		}
		for c := range n.Cards {
			if f := &n.facts[c]; f.free && f.since.IsZero() {
				note(cardName(n.name, n.Cards[c].Index))
			}
		}
	}
	w.memory.FreeSince = sortedStamps(free)
}

// emptyButSinceWhen reports an empty node of which the snapshot does not say
// since when it has been empty.
func (w *world) emptyButSinceWhen(n *nodeState) bool {
	unknown := len(n.Cards) == 0
	for c := range n.Cards {
		if !n.facts[c].free {
			return false
		}
		unknown = unknown || n.facts[c].since.IsZero()
	}
	return n.bound == 0 && unknown
}

// cardFree reports whether a card is known to have no holder, and since when;
// a zero time is unknown.
func cardFree(c *Card) (bool, time.Time) {
	if !c.HoldersKnown || len(c.Holders) > 0 {
		return false, time.Time{}
	}
	since, unknown := c.IdleSince, false
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.Holder != "" {
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

// nextMemory is what to persist: the stamps of this plan, without those of
// pools and nodes that have been gone for long.
func (w *world) nextMemory() Memory {
	real := w.nodes
	for len(real) > 0 && real[len(real)-1].virtual {
		real = real[:len(real)-1]
	}
	isNode := func(name string) bool {
		_, ok := slices.BinarySearchFunc(real, name, func(n nodeState, s string) int { return strings.Compare(n.name, s) })
		return ok
	}
	isPool := func(name string) bool { return w.poolIndex(name) >= 0 }
	m := w.memory
	m.LastScaleUp = w.kept(m.LastScaleUp, isPool)
	m.LastScaleDown = w.kept(m.LastScaleDown, isPool)
	m.LastRepartition = w.kept(m.LastRepartition, isNode)
	m.LastReplace, m.LastDrain = w.kept(m.LastReplace, isPool), w.kept(m.LastDrain, isPool)
	m.Failures = slices.DeleteFunc(slices.Clone(m.Failures), func(f Failure) bool { return w.now.Sub(f.At) > longestPause+forgetAfter })
	m.Removed = slices.DeleteFunc(slices.Clone(m.Removed), func(g Growth) bool { return w.now.Sub(g.At) >= removalWindow })
	m.Grown = slices.DeleteFunc(slices.Clone(m.Grown), func(g Growth) bool { return w.now.Sub(g.At) >= time.Hour })
	return m
}

func (w *world) kept(list []Stamp, exists func(string) bool) []Stamp {
	return slices.DeleteFunc(slices.Clone(list), func(s Stamp) bool {
		return !exists(s.Name) && w.now.Sub(s.At) > forgetAfter
	})
}
