package plan

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// A pod may request more instances than a single GPU can be partitioned into. Several
// GPUs of one node are then repartitioned for it, one after the other.

// severalOn is the repartition of several GPUs of a node, those first that can be repartitioned
// first: each into the most that is still lacking of the request.
func (w *world) severalOn(k *kind, p *Pod, node int, requested, further []mig.Count) (option, bool) {
	n := &w.nodes[node]
	if shortOf(requested, nil) < 2 {
		return option{}, false
	}
	o := option{kind: OptionRepartition, node: node}
	free, at := slices.Clone(n.free), n.changeAt
	if n.settling {
		at = later(at, w.now.Add(aMoment))
	}
	var all []repartition
	for _, s := range w.splits(n) {
		if slices.ContainsFunc(all, func(r repartition) bool { return r.device == s.device }) {
			continue
		}
		a, left := w.mostOf(n.pool, n.model, requested, free, further, s)
		if !a.ok {
			continue
		}
		all = append(all, repartition{device: s.device, before: s.before, keep: s.keep, answer: a.Answer, at: s.at})
		free, o.unknown, at = left, o.unknown || s.unknown, later(at, s.at)
		if len(all) == 1 {
			o.at = at
		}
		o.ready = at.Add(w.pools[n.pool].MIG.Duration)
		at = later(o.ready, at.Add(w.policy.RepartitionCooldown))
	}
	if len(all) == 0 || shortOf(requested, free) > 0 {
		return option{}, false
	}
	o.repartition, o.then = all[0], all[1:]
	o.cost = float64(len(all))*w.policy.DisruptionCost + w.waitCost(k, p.Priority, o.ready.Sub(w.now))
	return o, true
}

// splits are those of a node's GPUs, the soonest first; of one GPU first the one around what
// is not idle for long enough, where that can stay.
func (w *world) splits(n *nodeState) []*split {
	var all []*split
	for _, patient := range []bool{false, true} {
		for c := range n.gpus() {
			device := &n.gpus()[c]
			if !device.MIG || device.Model.Name != n.model || !patient && (n.tier == tierNode || !w.pools[n.pool].MIG.KeepsBusy) {
				continue
			}
			if s := w.splitGPU(n, c, patient); s.why == "" {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *split) int { return a.at.Compare(b.at) })
	return all
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
