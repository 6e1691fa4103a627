package mig

import "slices"

// enumerate returns every maximal layout, in order; false when there are more
// than limit, or the search for them is that much too long.
func (t *Table) enumerate(limit int) ([]Layout, bool) {
	m := maximizer{table: t, limit: limit, steps: 64 * limit, counts: make([]int, len(t.entries))}
	for k, e := range t.entries {
		for j, start := range e.starts {
			m.places = append(m.places, place{entry: k, mask: e.masks[j], Placement: Placement{Profile: e.Profile, Start: start}})
		}
	}
	slices.SortFunc(m.places, func(a, b place) int { return a.Compare(b.Placement) })
	if !m.extend(0, state{}, nil) {
		return nil, false
	}
	slices.SortFunc(m.found, Layout.Compare)
	return m.found, true
}

type place struct {
	Placement
	entry int
	mask  uint16
}

type maximizer struct {
	table  *Table
	places []place // sorted by start
	counts []int   // by entry
	found  []Layout
	limit  int
	steps  int
}

// extend adds each of places[from:] in turn. Since places ascend, every set of
// placements is built in one order only.
func (m *maximizer) extend(from int, s state, l Layout) bool {
	if m.steps--; m.steps < 0 {
		return false
	}
	full := true
	for i, p := range m.places {
		if m.counts[p.entry] == m.table.entries[p.entry].max || !m.table.fits(s, m.table.entries[p.entry], p.mask) {
			continue
		}
		full = false
		if i < from {
			continue
		}
		m.counts[p.entry]++
		ok := m.extend(i+1, s.with(m.table.entries[p.entry], p.Start), append(l, p.Placement))
		m.counts[p.entry]--
		if !ok {
			return false
		}
	}
	if full {
		m.found = append(m.found, slices.Clip(slices.Clone(l)))
	}
	return len(m.found) <= m.limit
}
