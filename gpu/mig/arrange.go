package mig

import (
	"math/bits"
	"slices"
)

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
