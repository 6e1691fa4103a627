package mig

import (
	"math/bits"
	"slices"
)

// maxSteps bounds a search, since a published table of an unknown product may have
// more placements than any known one: no table of a product comes near it.
const maxSteps = 1 << 20

// Search visits the sets of some places that can be added to keep, which is legal:
// each set to which none of the other places can be added, once, in the order of
// the places. most, where it is not nil, is how many instances of a profile the GPU
// may have, beside the product's own limit. It is false where visit ends it, or
// after maxSteps.
func (t *Table) Search(keep Layout, places []Placement, most func(Profile) int, visit func(added []Placement) bool) bool {
	w := walk{table: t, free: make([]int, len(t.entries)), visit: visit, steps: maxSteps}
	for k, e := range t.entries {
		w.free[k] = e.max
		if most != nil {
			w.free[k] = min(e.max, most(e.Profile))
		}
		w.free[k] -= keep.Count(e.Profile)
	}
	for _, p := range places {
		if k, ok := t.index(p.Profile); ok {
			w.places = append(w.places, place{p, k, mask(p.Start, p.Profile.Memory)})
		}
	}
	return w.extend(0, t.stateOf(keep), nil)
}

type walk struct {
	table  *Table
	places []place
	free   []int // how many more a GPU may have, by entry
	visit  func(added []Placement) bool
	steps  int // left
}

type place struct {
	Placement
	entry int
	mask  uint16
}

// extend adds each of places[from:] in turn. Since places ascend, every set is
// built in one order only.
func (w *walk) extend(from int, s state, added []Placement) bool {
	if w.steps--; w.steps < 0 {
		return false
	}
	full := true
	for i := range w.places {
		p := &w.places[i]
		e := &w.table.entries[p.entry]
		if w.free[p.entry] <= 0 || !w.table.fits(s, e, p.mask) {
			continue
		}
		full = false
		if i < from {
			continue
		}
		w.free[p.entry]--
		ok := w.extend(i+1, s.with(e, p.Start), append(added, p.Placement))
		w.free[p.entry]++
		if !ok {
			return false
		}
	}
	return !full || w.visit(added)
}

// maximalLayouts returns every layout to which nothing can be added, in order; false
// where there are more than limit, or the search for them is too long.
func (t *Table) maximalLayouts(limit int) (found []Layout, ok bool) {
	var places []Placement
	for _, e := range t.entries {
		for _, start := range e.starts {
			places = append(places, Placement{Profile: e.Profile, Start: start})
		}
	}
	slices.SortFunc(places, Placement.Compare)
	ok = t.Search(nil, places, nil, func(added []Placement) bool {
		found = append(found, NewLayout(added...))
		return len(found) <= limit
	})
	slices.SortFunc(found, Layout.Compare)
	return found, ok
}

// state is what the instances of a GPU take.
type state struct {
	taken   uint16 // memory slices, one bit each
	compute int
	media   int
}

func (s state) with(e *entry, start int) state {
	return state{taken: s.taken | mask(start, e.Memory), compute: s.compute + e.Compute, media: s.media + e.media}
}

func (t *Table) fits(s state, e *entry, m uint16) bool {
	return s.taken&m == 0 && s.compute+e.Compute <= t.compute && s.media+e.media <= t.media
}

func (t *Table) stateOf(l Layout) state {
	var s state
	for _, p := range l {
		if i, ok := t.index(p.Profile); ok {
			s = s.with(&t.entries[i], p.Start)
		}
	}
	return s
}

// FreeSlices returns the compute and memory slices in no instance of l. Slices can
// be stranded; Free returns the instances that still fit.
func (t *Table) FreeSlices(l Layout) (compute, memory int) {
	s := t.stateOf(l)
	return t.compute - s.compute, t.memory - bits.OnesCount16(s.taken)
}

// Count is the number of instances of a profile.
func (l Layout) Count(p Profile) int {
	n := 0
	for _, q := range l {
		if q.Profile == p {
			n++
		}
	}
	return n
}
