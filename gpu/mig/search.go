package mig

import "slices"

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
		w.free[k] -= count(keep, e.Profile)
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
