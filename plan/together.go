package plan

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// maxTogether bounds the members that are served in trials of reclaimTogether in one reconcile.
const maxTogether = 2048

// maxStops bounds the pods and gangs of which all sets are tried.
const maxStops = 8

// reclaimTogether serves a gang's members, all or none, or some pods alone. Each evicts what is cheapest for it
// alone, by which several may cost more than need be, or take what another cannot do without. Where two pods are
// evicted or the gang is not served, they are served for each set of pods and gangs as if those stopped anyway, and
// what costs least is done. Where these are all that may be evicted, no others are for the set.
// What is not served is in the result of serve: infinite for a gang.
func (w *world) reclaimTogether(core []int, serve func() (unserved float64)) {
	if !w.reclaimable() || !slices.ContainsFunc(core, func(i int) bool { return w.pending[i].charged && !w.pending[i].borrowed }) {
		serve()
		return
	}
	evicted, before, least := len(w.evictedPods), w.spent, 0.0
	if w.try(func() bool {
		least = serve() + w.spent - before
		return len(w.evictedPods) < evicted+2 && least < math.Inf(1)
	}) {
		return
	}
	all, best := w.stoppable(false), []*Pod(nil)
	if len(all) > maxStops {
		all = w.stoppable(true)
	}
	w.stopOnly = len(all) <= maxStops
	all = all[:min(len(all), maxStops)]
	for set := 1; set < 1<<len(all); set++ {
		w.stopping = nil
		for i, s := range all {
			if set>>i&1 == 1 {
				w.stopping = append(w.stopping, s.pods...)
			}
		}
		if w.retried += len(core); w.retried > maxTogether {
			break
		}
		w.try(func() bool {
			if cost := serve() + w.spent - before; cost < least-rounding {
				least, best = cost, w.stopping
			}
			return false
		})
	}
	w.stopping, w.stopOnly = best, w.stopOnly && best != nil
	serve()
	w.stopping, w.stopOnly = nil, false
}

// stop is a pod, or the running members of a gang, and what is lost with them a GPU.
type stop struct {
	pods []*Pod
	lost float64
}

// stoppable are the pods that may be evicted, or these and whole gangs, those with which least is lost a GPU first.
func (w *world) stoppable(gangs bool) []stop {
	var all []stop
	seen := map[*gang]bool{}
	for _, b := range w.borrowers[:min(len(w.borrowers), maxBorrowers)] {
		for _, v := range w.victims(b.node) {
			s := stop{pods: []*Pod{v.pod}}
			if g := w.gangNamed(v.pod.Gang); g != nil && gangs {
				if seen[g] {
					continue
				}
				seen[g], s.pods = true, g.runs
			}
			gpus := rounding
			for _, p := range s.pods {
				gpus += w.gpusOf(p)
			}
			s.lost = w.loss(s.pods, w.restart(b.node)) / gpus
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b stop) int {
		return cmp.Or(cmp.Compare(a.lost, b.lost), evictionOrder(a.pods[0], b.pods[0]))
	})
	return all
}

// lossBeside is loss where the pods that are stopped for several members are stopped anyway.
func (w *world) lossBeside(pods []*Pod, wait time.Duration) float64 {
	if len(w.stopping) > 0 {
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return slices.Contains(w.stopping, p) })
	}
	return w.loss(pods, wait)
}

// lostAnyway is what of an option's loss is not in its cost.
func (w *world) lostAnyway(o option) float64 {
	return w.loss(o.victims, w.restart(o.node)) - w.lossBeside(o.victims, w.restart(o.node))
}
