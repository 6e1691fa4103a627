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
	// Spare may be removed. Instances of it that stay serve new demand.
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

// Target evaluates every layout that serves Must, and returns the best one. The best one
// serves most compute slices of Further. Of equal ones it keeps most of Spare, then has
// most slices of requested profiles (with Grow in the other order), then uses most
// slices, then has fewest instances. Ties go to the layout that sorts first, so equal
// questions have equal answers. It is false when Must cannot be served.
func Target(q Question) (Answer, bool) {
	if q.Table == nil || q.Table.Legal(q.Keep) != nil || len(q.Must) == 0 {
		return Answer{}, false
	}
	s := newSearch(q)
	q.Table.Search(q.Keep, s.places, nil, func(added []mig.Placement) bool { s.weigh(added); return true })
	return s.best.Answer, s.found
}

// kind is a requested profile.
type kind struct {
	mig.Profile
	must, demand int // instances that must be served, and all that are requested
}

// scored is an answer with further numbers of compute slices that it is compared by.
type scored struct {
	Answer
	grown, used int // of instances of requested profiles, and of all instances but Keep
}

type search struct {
	q      Question
	kinds  []kind
	places []mig.Placement // that are tried
	best   scored
	found  bool
}

// newSearch lists the placements to try: of all allowed profiles, and those of Spare.
// Profiles with attributes are tried only where they are requested.
func newSearch(q Question) *search {
	s := &search{q: q}
	for _, c := range slices.Concat(q.Must, q.Further) {
		if !slices.ContainsFunc(s.kinds, func(k kind) bool { return k.Profile == c.Profile }) {
			must := mig.CountOf(q.Must, c.Profile)
			s.kinds = append(s.kinds, kind{c.Profile, must, must + mig.CountOf(q.Further, c.Profile)})
		}
	}
	for _, p := range q.Table.Profiles() {
		requested := slices.ContainsFunc(s.kinds, func(k kind) bool { return k.Profile == p && k.demand > 0 })
		create := (len(q.Allowed) == 0 || slices.Contains(q.Allowed, p)) && (p.Attrs == 0 || requested)
		for _, start := range q.Table.Starts(p) {
			if at := (mig.Placement{Profile: p, Start: start}); create || slices.Contains(q.Spare, at) {
				s.places = append(s.places, at)
			}
		}
	}
	slices.SortFunc(s.places, mig.Placement.Compare)
	return s
}

// weigh makes Keep with these placements added the best answer, if it is better than the best so far.
func (s *search) weigh(added []mig.Placement) {
	var a scored
	for _, k := range s.kinds {
		n := mig.Layout(added).Count(k.Profile)
		if n < k.must {
			return
		}
		if k.demand > 0 {
			a.Served += min(n, k.demand) * k.Compute
			a.grown += n * k.Compute
		}
	}
	for _, p := range added {
		a.used += p.Profile.Compute
		if slices.Contains(s.q.Spare, p) {
			a.Kept += p.Profile.Compute
		}
	}
	c := s.compare(a, len(added))
	if c < 0 {
		return
	}
	a.Layout = mig.NewLayout(slices.Concat(s.q.Keep, added)...)
	if c > 0 || a.Layout.Compare(s.best.Layout) < 0 {
		s.best, s.found = a, true
	}
}

// compare is positive when a, which adds this number of instances to Keep, is better than
// the best so far.
func (s *search) compare(a scored, added int) int {
	if !s.found {
		return 1
	}
	b := s.best
	keep, grow := cmp.Compare(a.Kept, b.Kept), cmp.Compare(a.grown, b.grown)
	if s.q.Grow {
		keep, grow = grow, keep
	}
	return cmp.Or(cmp.Compare(a.Served, b.Served), keep, grow, cmp.Compare(a.used, b.used),
		cmp.Compare(len(b.Layout), len(s.q.Keep)+added))
}
