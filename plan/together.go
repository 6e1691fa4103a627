package plan

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// maxTogether bounds the members that are served in trials of reclaimTogether in one reconcile.
const maxTogether = 2048

// maxStops bounds the pods whose subsets reclaimTogether tries.
const maxStops = 8

// reclaimTogether finds the cheapest evictions for a gang's members together. First each evicts what is cheapest for
// itself. Together that may cost too much, or one may take what another cannot do without. So where two or more pods are
// evicted, or the gang is not served, it tries each set of up to maxStops evictable pods: the members are served as if
// those of the set stopped anyway. The cheapest result is kept. Where no more than maxStops pods are evictable at all,
// only those of the set may be evicted.
func (w *world) reclaimTogether(core []int, serve func() bool) {
	if !w.evictions.reclaimable() || !slices.ContainsFunc(core, func(i int) bool { return w.pending[i].charged && !w.pending[i].borrowed }) {
		serve()
		return
	}
	evicted, before, least := len(w.evictions.pods), w.serving.spent, math.Inf(1)
	if w.try(func() bool {
		if !serve() {
			return false
		}
		least = w.serving.spent - before
		return len(w.evictions.pods) < evicted+2
	}) {
		return
	}
	all, best := w.stoppable(), []*Pod(nil)
	w.serving.stopOnly = len(all) <= maxStops
	all = all[:min(len(all), maxStops)]
	for set := 1; set < 1<<len(all) && w.serving.retried < maxTogether; set++ {
		w.serving.retried += len(core)
		w.serving.stopping = nil
		for i, s := range all {
			if set>>i&1 == 1 {
				w.serving.stopping = append(w.serving.stopping, s)
			}
		}
		w.try(func() bool {
			if serve() && w.serving.spent-before < least-rounding {
				least, best = w.serving.spent-before, w.serving.stopping
			}
			return false
		})
	}
	w.serving.stopping, w.serving.stopOnly = best, w.serving.stopOnly && best != nil
	serve()
	w.serving.stopping, w.serving.stopOnly = nil, false
}

// stoppable are the pods that may be evicted, ordered by the loss per GPU, the least first. For a member of a gang
// loss and GPUs are those of all its running members.
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

// lossBeside is loss without the pods in serving.stopping, which stop anyway.
func (w *world) lossBeside(pods []*Pod, wait time.Duration) float64 {
	if len(w.serving.stopping) > 0 {
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return slices.Contains(w.serving.stopping, p) })
	}
	return w.evictions.loss(pods, wait)
}

// lostAnyway is the part of an option's loss that its cost leaves out, see lossBeside.
func (w *world) lostAnyway(o option) float64 {
	return w.evictions.loss(o.victims, w.nodes[o.node].restart()) - w.lossBeside(o.victims, w.nodes[o.node].restart())
}
