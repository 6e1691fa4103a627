package plan

import (
	"cmp"
	"slices"
	"time"
)

// evictions are the pods that this plan evicts, drains included, and what is needed to choose
// more: budgets, gangs, nodes with borrowers. spend adds a pod; the journal reverts that.
type evictions struct {
	conditions *conditions
	fleet      *fleet
	journal    *journal
	pods       map[*Pod]bool   // evicted by this plan or left to a later one
	later      map[*Pod]string // the pods that a later plan evicts, and for which pod
	budgets    map[string]int  // evictions that disruption budgets still allow
	gangs      []*gang         // by name
	borrowers  []borrowers     // nodes with pods of tenants that have borrowed
}

// movable reports whether a pod may be evicted now.
func (e *evictions) movable(p *Pod) bool {
	return !e.conditions.policy.keepsStorage(p) && e.mayEvict(p, e.conditions.now)
}

// keepsStorage reports a pod that the policy keeps for its local storage.
func (policy *Policy) keepsStorage(p *Pod) bool {
	return p.LocalStorage && policy.SkipNodesWithLocalStorage
}

// mayEvict is movable at a time, for a pod whose local storage is lost in any case.
func (e *evictions) mayEvict(p *Pod, at time.Time) bool {
	return p.Evictable && !p.Leaving && !p.DaemonSet && !e.pods[p] && !p.EvictFrom.After(at) && e.budgetsAllow(p, nil)
}

// spend subtracts an evicted pod from its budgets.
func (e *evictions) spend(p *Pod) {
	e.pods[p] = true
	for _, b := range p.Budgets {
		e.budgets[b.Name]--
	}
	e.journal.record(func() {
		delete(e.pods, p)
		delete(e.later, p)
		for _, b := range p.Budgets {
			e.budgets[b.Name]++
		}
	})
}

// reclaimable reports whether anything borrowed can be reclaimed.
func (e *evictions) reclaimable() bool { return len(e.borrowers) > 0 }

// mayLeave reports whether a pod may be evicted from an interrupted node now. Right before the node's end no checkpoint
// is awaited.
func (e *evictions) mayLeave(n *nodeState, p *Pod) bool {
	at := e.conditions.now
	if n.LeavesAt.Sub(at) <= LastCall {
		at = p.EvictFrom
	}
	return e.mayEvict(p, at)
}

// left is how many members of a gang run and stay.
func (e *evictions) left(g *gang) int {
	n := 0
	for _, p := range g.runs {
		if !e.pods[p] {
			n++
		}
	}
	return n
}

// victims are the pods of a node that may be evicted and whose tenants have borrowed.
func (w *world) victims(node int) []placedPod {
	var out []placedPod
	for _, p := range w.nodes[node].pods {
		if t := w.quotas.tenantIndex(p); t >= 0 && w.evictions.movable(p) && !w.quotas.tree.Borrowed(p.Tenant).Zero() {
			out = append(out, placedPod{node, p})
		}
	}
	return out
}

// next picks the pod to evict after gone, and returns what is lost with all of them. It picks the
// least urgent, then the one with the least loss, then the youngest; no pod where from is empty.
func (w *world) next(from, gone []placedPod) (best placedPod, least float64) {
	pods := make([]*Pod, len(gone), len(gone)+1)
	for i := range gone {
		pods[i] = gone[i].pod
	}
	for _, v := range from {
		if best.pod != nil && v.pod.Priority > best.pod.Priority {
			continue
		}
		lost := w.lossBeside(append(pods, v.pod), w.nodes[v.node].restart())
		if best.pod == nil || cmp.Or(cmp.Compare(v.pod.Priority, best.pod.Priority), cmp.Compare(lost, least), evictionOrder(v.pod, best.pod)) < 0 {
			best, least = v, lost
		}
	}
	return best, least
}

// choose picks pods whose eviction is enough; nil where evicting all is not, or nothing has to be evicted. It takes
// pods in the order of next, and at each step looks for the one pod that completes them with the least loss. Pods that
// turn out not to be needed are dropped. No tenant is left with less than its guarantee, and no budget is exceeded.
func (w *world) choose(from []placedPod, may func(*Pod) bool, enough func(gone []placedPod) bool) (best []placedPod) {
	least := 0.0
	for gone := []placedPod(nil); !enough(gone); {
		tree := w.quotas.without(gone)
		able := slices.DeleteFunc(slices.Clone(from), func(v placedPod) bool {
			return slices.Contains(gone, v) || w.serving.stopOnly && !slices.Contains(w.serving.stopping, v.pod) || !may(v.pod) || !w.quotas.amountOf(v.pod).Fits(tree.Borrowed(v.pod.Tenant)) || !w.evictions.budgetsAllow(v.pod, gone)
		})
		first, _ := w.next(able, gone)
		if first.pod == nil || best != nil && first.pod.Priority > best[len(best)-1].pod.Priority {
			break
		}
		with := func(v placedPod) []placedPod { return append(slices.Clip(gone), v) }
		last, lost := w.next(slices.DeleteFunc(able, func(v placedPod) bool {
			return v != first && (v.pod.Priority != first.pod.Priority || len(from) > maxBorrowers) || !enough(with(v))
		}), gone)
		if last.pod != nil && (best == nil || lost < least) {
			best, least = with(last), lost
		}
		gone = append(gone, first)
	}
	for i := 0; i < len(best); {
		if without := slices.Delete(slices.Clone(best), i, i+1); enough(without) {
			best = without
		} else {
			i++
		}
	}
	return best
}

// budgetsAllow reports whether a pod's disruption budgets allow its eviction after those of gone.
func (e *evictions) budgetsAllow(p *Pod, gone []placedPod) bool {
	for _, b := range p.Budgets {
		left := e.budgets[b.Name]
		for _, v := range gone {
			if slices.ContainsFunc(v.pod.Budgets, func(o Budget) bool { return o.Name == b.Name }) {
				left--
			}
		}
		if left <= 0 {
			return false
		}
	}
	return true
}

// evictionOrder orders pods for eviction: the least urgent first, then the
// youngest.
func evictionOrder(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Created.Compare(a.Created), byKey(a, b))
}

// evict adds the eviction of a running pod, or leaves it to a later reconcile
// where a bound delays it; its devices are supply after the grace period.
func (w *world) evict(node int, v *Pod, reason Reason, detail, forPod string) {
	n := w.touch(node)
	a := Action{Verb: Reclaim, Pool: n.Pool, Node: n.name, Pod: v.Key(), Reason: reason, Detail: detail, Cost: w.evictions.loss([]*Pod{v}, w.nodes[node].restart())}
	if forPod != "" {
		a.For = []string{forPod}
	}
	bound := w.actions.evictionBound(1)
	w.evictions.spend(v)
	if bound == "" {
		w.actions.add(a)
		w.actions.evicted++
	} else {
		n.later = bound
		w.evictions.later[v] = forPod // spend's journal entry reverts this too
	}
	w.quotas.tree = w.quotas.without([]placedPod{{node, v}})
	w.models.putBack(w.models.located(n, v), &n.capacity)
	w.topology.place(v, node, -1)
	n.leaving++
	n.at = later(n.at, w.now.Add(gracePeriod))
	n.changeAt = later(n.changeAt, n.at)
	n.tier, n.since = tierChange, PodLeaving
}
