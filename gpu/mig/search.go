package mig

import (
	"math/bits"
	"slices"
)

// maxSteps bounds a search, since a published table of an unknown product may have
// more placements than any known one. No known product comes near it.
const maxSteps = 1 << 20

// Search visits the maximal sets of places that can be added to keep, which must be legal:
// the sets beside which none of the other places fits. Each set is visited once, in the
// order of places. most, where it is not nil, is how many instances of a profile the GPU
// may have; the product's own limit holds too. Search ends and is false when visit is
// false, or after maxSteps.
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
	free   []int // by entry of the table, how many more instances the GPU may have
	visit  func(added []Placement) bool
	steps  int // left
}

type place struct {
	Placement
	entry int    // index in the table's entries
	mask  uint16 // its memory slices, one bit each
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
	compute int    // compute slices
	media   int    // decoders
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

// Count is a number of instances of one profile.
type Count struct {
	Profile Profile
	N       int
}

// Counts returns how many instances of each profile l has, sorted by profile.
func Counts(l Layout) []Count {
	var cs []Count
	for _, p := range l {
		i, ok := slices.BinarySearchFunc(cs, p.Profile, func(c Count, p Profile) int { return c.Profile.Compare(p) })
		if ok {
			cs[i].N++
			continue
		}
		cs = slices.Insert(cs, i, Count{Profile: p.Profile, N: 1})
	}
	return cs
}

// CountOf is the number of a profile's instances, in all entries together.
func CountOf(cs []Count, p Profile) int {
	n := 0
	for _, c := range cs {
		if c.Profile == p {
			n += c.N
		}
	}
	return n
}

// Arrange places want beside keep, which stays where it is, and returns the
// whole layout. It is false where no layout has all of them, or keep is not legal.
// Of several layouts it returns the one that leaves the most placements for large
// instances, then for smaller ones, then the one with the earliest starts: equal
// arguments give equal results, whatever the order of want. The search is bounded.
func (t *Table) Arrange(keep Layout, want []Count) (Layout, bool) {
	if t.Legal(keep) != nil {
		return nil, false
	}
	total := 0
	for _, w := range want {
		if w.N < 0 || w.N > t.memory || w.N > 0 && !t.Has(w.Profile) {
			return nil, false
		}
		if total += w.N; total > t.memory {
			return nil, false
		}
	}
	var places []Placement // the largest first
	for _, e := range slices.Backward(t.entries) {
		for _, start := range e.starts {
			if CountOf(want, e.Profile) > 0 {
				places = append(places, Placement{Profile: e.Profile, Start: start})
			}
		}
	}
	best, found, now := int64(-1), Layout(nil), slices.Clone(keep)
	t.Search(keep, places, func(p Profile) int { return keep.Count(p) + CountOf(want, p) }, func(added []Placement) bool {
		if len(added) < total {
			return true
		}
		now = append(now[:len(keep)], added...)
		if rest := t.weighRest(now); rest > best {
			best, found = rest, NewLayout(now...)
		}
		return true
	})
	return found, best >= 0
}

// weighRest weighs the free placements beside l: for each profile without
// attributes, from the largest, how many instances would still fit by themselves.
// The counts are digits of one number, so that one more large instance outweighs
// any number of small ones.
func (t *Table) weighRest(l Layout) int64 {
	s, sum := t.stateOf(l), int64(0)
	for _, e := range slices.Backward(t.entries) {
		if e.Attrs != 0 || sum > 1<<56 {
			continue
		}
		n, last := 0, uint16(0)
		for _, m := range e.masks {
			if s.taken&m == 0 && last&m == 0 {
				n++
				last |= m
			}
		}
		n = min(n, (t.compute-s.compute)/e.Compute, e.max-l.Count(e.Profile))
		sum = sum<<bits.Len(uint(t.memory)) | int64(max(n, 0))
	}
	return sum
}
