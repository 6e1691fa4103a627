package plan

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// split divides a GPU's layout, before, into the instances that a repartition must keep, and the
// spare ones, which it may remove from at on.
type split struct {
	device              int // position on the node
	before, keep, spare mig.Layout
	removed             []mig.Count // spare, counted
	at                  time.Time   // zero for at once
	unknown             bool        // the GPU's allocation is unknown
	why                 blocker     // what prevents a repartition, empty for nothing
}

// splitGPU splits a GPU. With patient, free instances that are not idle for long enough are spare
// from when they will be; without it they are kept. The result is cached until the node's
// repartition.
func (cond *conditions) splitGPU(n *nodeState, device int, patient bool) *split {
	d := n.derive()
	if d.splits == nil {
		d.splits = make([]*split, 2*len(n.gpus()))
	}
	i := 2 * device
	if patient {
		i++
	}
	if d.splits[i] == nil {
		s := cond.newSplit(n, device, patient)
		d.splits[i] = &s
	}
	return d.splits[i]
}

func (cond *conditions) newSplit(n *nodeState, device int, patient bool) (s split) {
	c := &n.gpus()[device]
	switch {
	case c.Health == gpu.Sick:
		return split{why: blockSick}
	case n.repartitions(device) || n.operating() && n.Operation.GPU == c.Index:
		return split{why: blockRepartition}
	case !c.AllocationKnown && n.tier != tierNode:
		// The API's allocatable resources suggest that it is free.
		at, willBe := cond.knownAt(n)
		if !willBe || len(c.Instances) == 0 {
			return split{why: blockUnknown}
		}
		s.at, s.unknown = at, true
	}
	s.device, s.at = device, later(s.at, cond.repartitionAgainAt(n, c.Index))
	rules := n.pool.MIG
	if !rules.KeepsBusy && c.allocated() {
		return split{why: blockAllocated}
	}
	unplaced := false
	for i := range c.Instances {
		in := &c.Instances[i]
		unplaced = unplaced || !in.Placed
		idle, known := cond.idleSince(n, device, in)
		ready := idle.Add(rules.IdleAfter)
		switch {
		case in.AllocatedTo != "":
			s.keep = append(s.keep, in.Placement)
		case !known && rules.IdleAfter > 0 && patient:
			return split{why: blockIdle}
		case !patient && rules.IdleAfter > 0 && (!known || ready.After(cond.now)):
			s.keep = append(s.keep, in.Placement)
		default:
			if rules.IdleAfter > 0 {
				s.at = later(s.at, ready)
			}
			s.spare = append(s.spare, in.Placement)
		}
	}
	switch { // nothing can be placed around instances whose places are unknown
	case unplaced && c.allocated():
		return split{why: blockAllocated}
	case unplaced && len(s.keep) > 0: // until they are idle for long enough
		return split{why: blockLayout}
	}
	s.before = layoutOf(c)
	s.removed = mig.Counts(s.spare)
	return s
}

// idleSince is when an instance was last released, false for unknown.
func (cond *conditions) idleSince(n *nodeState, device int, in *Instance) (time.Time, bool) {
	c := &n.gpus()[device]
	switch {
	case n.tier == tierNode: // it comes without pods
		return n.at, true
	case !c.AllocationKnown: // not before that is known
		return cond.now, true
	case !in.IdleSince.IsZero():
		return in.IdleSince, true
	case !c.IdleSince.IsZero():
		return c.IdleSince, true
	}
	at, ok := cond.state.FreeSince[gpuName(n.name, c.Index)]
	return at, ok
}

// lacking is what the node will lack of a request once some instances are
// removed; false where those are already promised to other pods.
func lacking(requested, free, removed []mig.Count) ([]mig.Count, bool) {
	for _, g := range removed {
		if mig.CountOf(free, g.Profile) < g.N {
			return nil, false
		}
	}
	short := false
	var must []mig.Count
	for _, c := range requested {
		short = short || mig.CountOf(free, c.Profile) < c.N
		if n := c.N - (mig.CountOf(free, c.Profile) - mig.CountOf(removed, c.Profile)); n > 0 {
			must = append(must, mig.Count{Profile: c.Profile, N: n})
		}
	}
	if !short {
		return nil, true // something other than slices is short
	}
	return must, true
}

// repartitions reports whether this plan repartitions a GPU.
func (n *nodeState) repartitions(device int) bool { return slices.Contains(n.repartition, device) }

// splits are the patient splits of a node's GPUs, the soonest first.
func (cond *conditions) splits(n *nodeState) []*split {
	var all []*split
	for c := range n.gpus() {
		device := &n.gpus()[c]
		if !device.MIG || device.ByClaim || device.Model.Name != n.model {
			continue
		}
		if s := cond.splitGPU(n, c, true); s.why == "" {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *split) int { return a.at.Compare(b.at) })
	return all
}

// changeOf is the repartition of a GPU into all instances of a request that are not free. With several, where no layout
// has them all, it is the repartition into as many of them as a layout has: left is what is free after it. left is nil
// where nothing is lacking any more.
func (ms *models) changeOf(p *poolState, model string, s *split, requested, free, further []mig.Count, several bool) (r repartition, left []mig.Count, why blocker) {
	must, ok := lacking(requested, free, s.removed)
	switch {
	case s.why != "":
		return r, nil, s.why
	case !ok:
		return r, nil, blockPromised
	case len(must) == 0:
		return r, nil, blockCapacity
	}
	a := ms.target(p, model, s.keep, s.spare, must, further)
	for i := 0; i < len(must) && !a.ok && several; i++ {
		rest := slices.Clone(must)
		rest[i].N--
		part := ms.target(p, model, s.keep, s.spare, []mig.Count{{Profile: must[i].Profile, N: 1}}, rest)
		c := capacity{free: slices.Clone(free)}
		if c.relayout(s.before, part.Layout); part.ok && shortOf(requested, c.free) < shortOf(requested, free) {
			a, left = part, c.free
		}
	}
	if !a.ok {
		return r, nil, blockLayout
	}
	return repartition{s, a.Answer}, left, ""
}

// shortOf is the number of requested instances that are not free.
func shortOf(requested, free []mig.Count) (n int) {
	for _, c := range requested {
		n += max(c.N-max(mig.CountOf(free, c.Profile), 0), 0)
	}
	return n
}
