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

// Arrange places want beside keep, which stays where it is, and returns the
// whole layout. It is false where no layout has all of them, or keep is not legal.
// Of several layouts it returns the one that leaves the most placements for large
// instances, then for smaller ones, then the one with the earliest starts: equal
// arguments give equal results, whatever the order of want. The search is bounded;
// no table of a product comes near the bound.
func (t *Table) Arrange(keep Layout, want []Count) (Layout, bool) {
	a := arranger{table: t, best: -1, steps: maxSteps}
	if t.Legal(keep) != nil || !a.list(want) {
		return nil, false
	}
	for i := range t.entries {
		a.counts = append(a.counts, count(keep, t.entries[i].Profile))
	}
	a.place(0, 0, t.stateOf(keep))
	if a.best < 0 {
		return nil, false
	}
	return NewLayout(append(slices.Clone(keep), a.found...)...), true
}

// maxSteps bounds a search, since a published table of an unknown product may have
// more placements than any known one.
const maxSteps = 1 << 18

// arranger searches all ways to place its wants, largest first.
type arranger struct {
	table  *Table
	wants  []int // indices into table.entries, one for each instance, largest first
	counts []int // instances so far, by entry
	now    []Placement
	found  []Placement
	best   int64
	steps  int // left
}

// list expands want to single instances; false where no GPU can have all of them.
func (a *arranger) list(want []Count) bool {
	total := 0
	for i := len(a.table.entries) - 1; i >= 0; i-- {
		for _, w := range want {
			if w.N < 0 {
				return false
			}
			if w.Profile != a.table.entries[i].Profile {
				continue
			}
			total += w.N
			if w.N > a.table.memory || total > a.table.memory {
				return false
			}
			for range w.N {
				a.wants = append(a.wants, i)
			}
		}
	}
	for _, w := range want {
		if w.N > 0 && !a.table.Has(w.Profile) {
			return false
		}
	}
	return true
}

// place places wants[i:]. Equal instances are placed at ascending starts, from
// index from on, so that no layout is tried twice.
func (a *arranger) place(i, from int, s state) {
	if a.steps--; a.steps < 0 {
		return
	}
	if i == len(a.wants) {
		if rest := a.weighRest(s); rest > a.best {
			a.best, a.found = rest, slices.Clone(a.now)
		}
		return
	}
	k := a.wants[i]
	e := &a.table.entries[k]
	if i == 0 || a.wants[i-1] != k {
		from = 0
	}
	if a.counts[k] == e.max {
		return
	}
	for j := from; j < len(e.starts); j++ {
		if !a.table.fits(s, *e, e.masks[j]) {
			continue
		}
		a.now = append(a.now, Placement{Profile: e.Profile, Start: e.starts[j]})
		a.counts[k]++
		a.place(i+1, j+1, s.with(*e, e.starts[j]))
		a.counts[k]--
		a.now = a.now[:len(a.now)-1]
	}
}

// weighRest weighs the free placements of s: for each profile without attributes,
// from the largest, how many instances would still fit by themselves. The counts
// are digits of one number, so that one more large instance outweighs any number
// of small ones.
func (a *arranger) weighRest(s state) int64 {
	var sum int64
	for k := len(a.table.entries) - 1; k >= 0; k-- {
		e := &a.table.entries[k]
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
		n = min(n, (a.table.compute-s.compute)/e.Compute, e.max-a.counts[k])
		sum = sum<<bits.Len(uint(a.table.memory)) | int64(max(n, 0))
	}
	return sum
}
