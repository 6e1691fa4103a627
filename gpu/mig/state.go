package mig

import "math/bits"

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

func count(l Layout, p Profile) int {
	n := 0
	for _, q := range l {
		if q.Profile == p {
			n++
		}
	}
	return n
}
