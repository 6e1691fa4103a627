package pack

import (
	"cmp"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Question is a GPU to be repartitioned.
type Question struct {
	Table *mig.Table
	// Keep stays in place and serves no new demand.
	Keep mig.Layout
	// Spare may be removed. What of it stays serves new demand.
	Spare mig.Layout
	// Must has to be served, else there is no answer.
	Must []mig.Count
	// Further is demand that is served where possible.
	Further []mig.Count
	// Allowed limits the profiles that may be created; empty allows all.
	// Instances that stay need no permission.
	Allowed []mig.Profile
	// Grow prefers more instances of the requested profiles to keeping Spare: for
	// GPUs whose layout cannot change once they are in use.
	Grow bool
}

// Answer is the layout to repartition a GPU into.
type Answer struct {
	Layout mig.Layout
	Served int // compute slices of Must and Further that it serves
	Kept   int // compute slices of Spare that stay in place
}

// Target finds the best layout by evaluating every one: it serves Must, then
// the most slices of Further, then keeps the most of Spare (or, with Grow,
// first has the most instances of the requested kinds), then uses the most
// slices with the fewest instances. Ties go to the layout that sorts first, so
// equal questions have equal answers. It is false when Must cannot be served.
func Target(q Question) (Answer, bool) {
	if q.Table == nil || q.Table.Legal(q.Keep) != nil || len(q.Must) == 0 {
		return Answer{}, false
	}
	s := newSearch(q)
	for _, m := range q.Must {
		if m.N > 0 && s.index(m.Profile) < 0 {
			return Answer{}, false
		}
	}
	c := device{compute: q.Table.ComputeSlices(), media: q.Table.MediaEngines()}
	for _, p := range q.Keep {
		c.taken |= mask(p)
		c.compute -= p.Profile.Compute
		c.media -= q.Table.Media(p.Profile)
		if k := s.index(p.Profile); k >= 0 {
			s.kinds[k].free--
		}
	}
	s.extend(0, c)
	return s.best.Answer, s.found
}

// device is what is taken and free of a GPU.
type device struct {
	taken   uint64
	compute int // free slices
	media   int // free engines
}

func mask(p mig.Placement) uint64 { return (1<<p.Profile.Memory - 1) << p.Start }

// place is one instance that could be added.
type place struct {
	mig.Placement
	mask  uint64
	kind  int
	spare bool // it exists already
}

// kind is one profile that could be added.
type kind struct {
	mig.Profile
	must, demand int
	free         int // how many more a GPU may have
	media        int // engines one takes
	n            int // in the current layout
}

type scored struct {
	Answer
	grown, used int
}

type search struct {
	q      Question
	kinds  []kind
	places []place // ascending, so that each set of them is built once
	now    []int   // indices into places
	best   scored
	found  bool
}

// newSearch lists the instances to try: requested, spare, and filling ones.
// What is not allowed may stay, but not be added.
func newSearch(q Question) *search {
	s := &search{q: q}
	for _, p := range q.Table.Profiles() {
		demand := of(q.Must, p) + of(q.Further, p)
		allowed := len(q.Allowed) == 0 || slices.Contains(q.Allowed, p)
		create := allowed && (p.Attrs == 0 || demand > 0)
		if !create && number(q.Spare, p) == 0 {
			continue
		}
		k := len(s.kinds)
		s.kinds = append(s.kinds, kind{Profile: p, must: of(q.Must, p), demand: demand, free: q.Table.Max(p), media: q.Table.Media(p)})
		for _, start := range q.Table.Starts(p) {
			at := mig.Placement{Profile: p, Start: start}
			if spare := slices.Contains(q.Spare, at); spare || create {
				s.places = append(s.places, place{at, mask(at), k, spare})
			}
		}
	}
	slices.SortFunc(s.places, func(a, b place) int { return a.Placement.Compare(b.Placement) })
	return s
}

func (s *search) index(p mig.Profile) int {
	return slices.IndexFunc(s.kinds, func(k kind) bool { return k.Profile == p })
}

// extend adds each of places[from:] in turn; a layout to which nothing can be
// added is compared.
func (s *search) extend(from int, c device) {
	full := true
	for i := range s.places {
		p := &s.places[i]
		k := &s.kinds[p.kind]
		if c.taken&p.mask != 0 || k.Compute > c.compute || k.media > c.media || k.n >= k.free {
			continue
		}
		full = false
		if i < from {
			continue
		}
		k.n++
		s.now = append(s.now, i)
		s.extend(i+1, device{c.taken | p.mask, c.compute - k.Compute, c.media - k.media})
		s.now = s.now[:len(s.now)-1]
		k.n--
	}
	if full {
		s.weigh()
	}
}

func (s *search) weigh() {
	var a scored
	for i := range s.kinds {
		k := &s.kinds[i]
		if k.n < k.must {
			return
		}
		a.Served += min(k.n, k.demand) * k.Compute
		a.used += k.n * k.Compute
		if k.demand > 0 {
			a.grown += k.n * k.Compute
		}
	}
	for _, i := range s.now {
		if s.places[i].spare {
			a.Kept += s.places[i].Profile.Compute
		}
	}
	if c := s.compare(a); c < 0 || c == 0 && s.layout().Compare(s.best.Layout) >= 0 {
		return
	}
	a.Layout = s.layout()
	s.best, s.found = a, true
}

func (s *search) layout() mig.Layout {
	l := slices.Clone(s.q.Keep)
	for _, i := range s.now {
		l = append(l, s.places[i].Placement)
	}
	return mig.NewLayout(l...)
}

// compare is positive when the current layout is better than the best so far.
func (s *search) compare(a scored) int {
	if !s.found {
		return 1
	}
	b := s.best
	keep, grow := cmp.Compare(a.Kept, b.Kept), cmp.Compare(a.grown, b.grown)
	if s.q.Grow {
		keep, grow = grow, keep
	}
	return cmp.Or(cmp.Compare(a.Served, b.Served), keep, grow, cmp.Compare(a.used, b.used),
		cmp.Compare(len(b.Layout), len(s.q.Keep)+len(s.now)))
}

func number(l mig.Layout, p mig.Profile) int {
	n := 0
	for _, q := range l {
		if q.Profile == p {
			n++
		}
	}
	return n
}

func of(cs []mig.Count, p mig.Profile) int {
	n := 0
	for _, c := range cs {
		if c.Profile == p {
			n += max(c.N, 0)
		}
	}
	return n
}
