package signal

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// assembly takes the points of the next table in any order and groups them by
// key, and the keys by namespace.
type assembly struct {
	points []point
	next   []int32 // of the same key, from 1; 0 at the end
	order  []Key   // in order of appearance
	chains map[Key]chain
}

// chain is a linked list through points, from 1.
type chain struct{ first, last, length int32 }

// Scratch is the memory that building a table needs beside the table. It is
// reused for the next: it is as large as the table, and would be most of the
// garbage. The zero value is ready; one table at a time.
type Scratch struct {
	assembly assembly
	times    map[stamp]int32
}

// begin returns the empty assembly.
func (s *Scratch) begin(size int) *assembly {
	a := &s.assembly
	if a.chains == nil {
		a.chains, s.times = make(map[Key]chain, size), make(map[stamp]int32, size)
	}
	a.points, a.next, a.order = slices.Grow(a.points, size), slices.Grow(a.next, size), slices.Grow(a.order, size)
	return a
}

// end releases the labels.
func (s *Scratch) end() {
	a := &s.assembly
	clear(a.points)
	clear(a.order)
	clear(a.chains)
	clear(s.times)
	a.points, a.next, a.order = a.points[:0], a.next[:0], a.order[:0]
}

func (a *assembly) add(k Key, p point) {
	a.points, a.next = append(a.points, p), append(a.next, 0)
	here := int32(len(a.points))
	c, seen := a.chains[k]
	if seen {
		a.next[c.last-1] = here
	} else {
		a.order = append(a.order, k)
		c.first = here
	}
	c.last = here
	c.length++
	a.chains[k] = c
}

// carry copies the points that only the older table has, so that a series that
// vanished is stale and not unknown.
func (a *assembly) carry(older *Table, now time.Time) {
	for i, k := range older.keys {
		giveWay(i)
		for _, p := range older.of(k) {
			if now.Sub(time.UnixMilli(p.at)) > Forget || p.is(evidence) || a.holds(k, &p) {
				continue
			}
			p.marks |= gone
			a.add(k, p)
		}
	}
}

func (a *assembly) holds(k Key, p *point) bool {
	for i := a.chains[k].first; i > 0; i = a.next[i-1] {
		q := &a.points[i-1]
		if q.source == p.source && !q.is(evidence) && labels.Equal(q.labels, p.labels) {
			return true
		}
	}
	return false
}

// table lays everything out.
func (a *assembly) table(rule Rule, series int) *Table {
	t := &Table{
		rule: rule, series: series,
		points: make([]point, 0, len(a.points)), byKey: make(map[Key]span, len(a.order)),
	}
	for n, k := range a.order {
		giveWay(n)
		first := uint32(len(t.points))
		for i := a.chains[k].first; i > 0; i = a.next[i-1] {
			t.points = append(t.points, a.points[i-1])
		}
		t.byKey[k] = span{first, uint32(len(t.points))}
	}
	t.keys, t.byNamespace = sideBySide(a.order)
	return t
}

// sideBySide puts the keys of each namespace together.
func sideBySide(order []Key) ([]Key, map[string]span) {
	counts := map[string]uint32{}
	for _, k := range order {
		counts[k.Namespace]++
	}
	keys, spans, taken := make([]Key, len(order)), make(map[string]span, len(counts)), uint32(0)
	for _, k := range order {
		s, seen := spans[k.Namespace]
		if !seen {
			s = span{taken, taken}
			taken += counts[k.Namespace]
		}
		keys[s.end] = k
		s.end++
		spans[k.Namespace] = s
	}
	return keys, spans
}
