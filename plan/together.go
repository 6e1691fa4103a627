package plan

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// maxTogether bounds the members that are served in trials of reclaimTogether in one reconcile.
const maxTogether = 2048

// maxStops bounds the pods of which all sets are tried.
const maxStops = 8

// reclaimTogether serves a gang's members, all or none, or some pods alone. Each evicts what is cheapest for it
// alone, by which several may cost more than need be, or take what another cannot do without. Where two pods are
// evicted or the gang is not served, they are served for each set of pods as if those stopped anyway, and
// what costs least is done. Where these are all that may be evicted, no others are for the set.
// What is not served is in the result of serve: infinite for a gang.
func (w *world) reclaimTogether(core []int, serve func() (unserved float64)) {
	if !w.evictions.reclaimable() || !slices.ContainsFunc(core, func(i int) bool { return w.pending[i].charged && !w.pending[i].borrowed }) {
		serve()
		return
	}
	evicted, before, least := len(w.evictions.pods), w.serving.spent, 0.0
	if w.try(func() bool {
		least = serve() + w.serving.spent - before
		return len(w.evictions.pods) < evicted+2 && least < math.Inf(1)
	}) {
		return
	}
	all, best := w.stoppable(), []*Pod(nil)
	w.serving.stopOnly = len(all) <= maxStops
	all = all[:min(len(all), maxStops)]
	for set := 1; set < 1<<len(all); set++ {
		w.serving.stopping = nil
		for i, s := range all {
			if set>>i&1 == 1 {
				w.serving.stopping = append(w.serving.stopping, s)
			}
		}
		if w.serving.retried += len(core); w.serving.retried > maxTogether {
			break
		}
		w.try(func() bool {
			if cost := serve() + w.serving.spent - before; cost < least-rounding {
				least, best = cost, w.serving.stopping
			}
			return false
		})
	}
	w.serving.stopping, w.serving.stopOnly = best, w.serving.stopOnly && best != nil
	serve()
	w.serving.stopping, w.serving.stopOnly = nil, false
}

// stoppable are the pods that may be evicted, those with which least is lost a GPU first: with a member of a gang,
// that of its gang.
func (w *world) stoppable() (all []*Pod) {
	lost := map[*Pod]float64{}
	for _, b := range w.evictions.borrowers[:min(len(w.evictions.borrowers), maxBorrowers)] {
		for _, v := range w.victims(b.node) {
			stop, gpus := []*Pod{v.pod}, rounding
			if g := w.evictions.gangNamed(v.pod.Gang); g != nil {
				stop = g.runs
			}
			for _, p := range stop {
				gpus += w.gpusOf(p)
			}
			lost[v.pod] = w.evictions.loss(stop, w.nodes[b.node].restart()) / gpus
			all = append(all, v.pod)
		}
	}
	slices.SortStableFunc(all, func(a, b *Pod) int { return cmp.Or(cmp.Compare(lost[a], lost[b]), evictionOrder(a, b)) })
	return all
}

// lossBeside is loss where the pods that are stopped for several members are stopped anyway.
func (w *world) lossBeside(pods []*Pod, wait time.Duration) float64 {
	if len(w.serving.stopping) > 0 {
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return slices.Contains(w.serving.stopping, p) })
	}
	return w.evictions.loss(pods, wait)
}

// lostAnyway is what of an option's loss is not in its cost.
func (w *world) lostAnyway(o option) float64 {
	return w.evictions.loss(o.victims, w.nodes[o.node].restart()) - w.lossBeside(o.victims, w.nodes[o.node].restart())
}
