package plan

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// A pod may request more instances than a single GPU can be partitioned into. Several
// GPUs of one node are then repartitioned for it, one after the other.

// severalOption finds the node whose GPUs, repartitioned one after the other, serve the
// pod at the least cost.
func (w *world) severalOption(k *kind, p *Pod) (option, bool) {
	best, found := option{}, false
	if k.noSeveral == w.journal.current {
		return best, false
	}
	for i := range w.nodes {
		if o, ok := w.severalOn(k, p, i); ok && (!found || o.cost < best.cost) {
			best, found = o, true
		}
	}
	if !found {
		k.noSeveral = w.journal.current
	}
	return best, found
}

// severalOn is severalOption on one node.
func (w *world) severalOn(k *kind, p *Pod, node int) (option, bool) {
	n := &w.nodes[node]
	requested, ok := w.mayRepartition(k, n)
	if !ok || shortOf(requested, nil) < 2 || w.nodeBlocks(k, n) != "" {
		return option{}, false
	}
	o := option{kind: OptionRepartition, node: node}
	free, at, further := slices.Clone(n.free), n.changeAt, w.furtherDemand()[n.pool]
	if n.settling {
		at = later(at, w.now.Add(aMoment))
	}
	var all []repartition
	var ready time.Time
	for c := 0; c < len(n.gpus()) && shortOf(requested, free) > 0; c++ {
		r, unknown, ok := w.oneOfSeveral(n, c, requested, further, &free)
		if !ok {
			continue
		}
		all, o.unknown = append(all, r), o.unknown || unknown
		at = later(at, r.at)
		if len(all) == 1 {
			o.at = at
		}
		ready = at.Add(w.pools[n.pool].MIG.Duration)
		at = later(ready, at.Add(w.policy.RepartitionCooldown))
	}
	if len(all) == 0 || shortOf(requested, free) > 0 {
		return option{}, false
	}
	o.repartition, o.then = all[0], all[1:]
	o.cost = float64(len(all))*w.policy.DisruptionCost + w.waitCost(k, p.Priority, ready.Sub(w.now))
	return o, true
}

// oneOfSeveral repartitions one GPU of a node into the most that free lacks of a request.
// It is false, and free unchanged, where that gives nothing.
func (w *world) oneOfSeveral(n *nodeState, device int, requested, further []mig.Count, free *[]mig.Count) (r repartition, unknown, ok bool) {
	c := &n.gpus()[device]
	if !c.MIG || c.Model.Name != n.model {
		return repartition{}, false, false
	}
	for _, patient := range []bool{false, true} {
		if !patient && (n.tier == tierNode || !w.pools[n.pool].MIG.KeepsBusy) {
			continue
		}
		s := w.splitGPU(n, device, patient)
		if s.why != "" {
			continue
		}
		if a, left := w.mostOf(n.pool, n.model, requested, *free, further, s); a.ok {
			*free = left
			return repartition{device: device, before: s.before, keep: s.keep, answer: a.Answer, at: s.at}, s.unknown, true
		}
	}
	return repartition{}, false, false
}

// mostOf is the layout of a GPU that gives the most of what free lacks of a request, or
// all of it and the most of the further demand, and what is free then; not ok where no
// layout gives any of it.
func (w *world) mostOf(pool int, model string, requested, free, further []mig.Count, s *split) (answer, []mig.Count) {
	must, ok := lacking(requested, free, s.removed)
	if !ok {
		return answer{}, nil
	}
	all := w.target(pool, model, s.keep, s.spare, must, further)
	for i, c := range must {
		rest := slices.Clone(must)
		rest[i].N--
		a := all
		if !a.ok {
			a = w.target(pool, model, s.keep, s.spare, []mig.Count{{Profile: c.Profile, N: 1}}, rest)
		}
		if !a.ok {
			continue
		}
		r := capacity{free: slices.Clone(free)}
		if r.relayout(s.before, a.Layout); shortOf(requested, r.free) < shortOf(requested, free) {
			return a, r.free
		}
	}
	return answer{}, nil
}

// shortOf is the number of requested instances that are not free.
func shortOf(requested, free []mig.Count) (n int) {
	for _, c := range requested {
		n += max(c.N-max(mig.CountOf(free, c.Profile), 0), 0)
	}
	return n
}
