package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// gracePeriod is the usual time from an eviction to the pod's end: Kubernetes'
// default grace period.
const gracePeriod = 30 * time.Second

// movable reports whether a pod may be evicted now.
func (w *world) movable(p *Pod) bool { return !w.keepsStorage(p) && w.mayEvict(p) }

// keepsStorage reports a pod that the policy keeps for its local storage.
func (w *world) keepsStorage(p *Pod) bool {
	return p.LocalStorage && w.policy.SkipNodesWithLocalStorage
}

// mayEvict is movable for a pod whose local storage is lost in any case.
func (w *world) mayEvict(p *Pod) bool {
	if !p.Evictable || p.Leaving || p.DaemonSet || w.evictedPods[p] || p.EvictFrom.After(w.now) {
		return false
	}
	for _, b := range p.Budgets {
		if w.budgets[b.Name] <= 0 {
			return false
		}
	}
	return true
}

// gatherBudgets collects what disruption budgets allow. Where pods state
// different numbers for one budget, the least holds.
func (w *world) gatherBudgets(pods []Pod) {
	for i := range pods {
		for _, b := range pods[i].Budgets {
			if left, ok := w.budgets[b.Name]; !ok || b.Allowed < left {
				w.budgets[b.Name] = b.Allowed
			}
		}
	}
}

// spend subtracts an evicted pod from its budgets.
func (w *world) spend(p *Pod) {
	w.evictedPods[p] = true
	for _, b := range p.Budgets {
		w.budgets[b.Name]--
	}
	w.record(func() {
		delete(w.evictedPods, p)
		delete(w.evictedLater, p)
		for _, b := range p.Budgets {
			w.budgets[b.Name]++
		}
	})
}

// victims lists the pods of a node whose tenants have borrowed, in the order of
// eviction.
func (w *world) victims(node int) []*Pod {
	var out []*Pod
	for _, p := range w.nodes[node].pods {
		if t := w.tenantIndex(p); t >= 0 && p.Demand.Fraction == nil && w.movable(p) && !w.tree.Borrowed(p.Tenant).Zero() {
			out = append(out, p)
		}
	}
	if len(out) < 2 {
		return out
	}
	lost := make(map[*Pod]float64, len(out))
	for _, p := range out {
		lost[p] = w.loss([]*Pod{p}, w.restart(node))
	}
	slices.SortFunc(out, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(lost[a], lost[b]), evictionOrder(a, b))
	})
	return out
}

// evictionOrder orders pods for eviction: the least urgent first, then the
// youngest.
func evictionOrder(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Created.Compare(a.Created), byKey(a, b))
}

// maxBorrowers bounds the nodes on which evictions are tried for one pod.
const maxBorrowers = 64

// borrowers is a node with pods of tenants that have borrowed, and its free
// capacity without all of them: what does not fit then cannot be served there.
type borrowers struct {
	node     int
	first    *Pod    // to leave
	lost     float64 // with it
	capacity capacity
}

// findBorrowers lists the nodes with borrowers, in the eviction order of each
// node's first victim. It runs before any node is added.
func (w *world) findBorrowers() {
	w.borrowers = nil
	if !w.policy.ReclaimBorrowed || w.policy.MaxEvictionsPerReconcile <= 0 || !slices.ContainsFunc(w.tenants, func(t Tenant) bool { return !w.tree.Borrowed(t.Name).Zero() }) {
		return
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.tier != tierNow && n.since != PodLeaving || n.pool < 0 || w.pools[n.pool].Freeze {
			continue
		}
		victims := w.victims(i)
		if len(victims) == 0 {
			continue
		}
		l := borrowers{i, victims[0], w.loss(victims[:1], w.restart(i)), n.capacity.clone()}
		for _, v := range victims {
			w.putBack(n.onHealthy(v), &l.capacity)
		}
		w.borrowers = append(w.borrowers, l)
	}
	slices.SortStableFunc(w.borrowers, func(a, b borrowers) int {
		return cmp.Or(cmp.Compare(a.first.Priority, b.first.Priority), cmp.Compare(a.lost, b.lost), evictionOrder(a.first, b.first))
	})
}

// reclaimable reports whether anything borrowed can be reclaimed.
func (w *world) reclaimable() bool { return len(w.borrowers) > 0 }

// reclaimOption finds the node where the evictions cost least, for a pod within
// its tenant's guarantee.
func (w *world) reclaimOption(p *pending, k *kind) (option, bool) {
	best, found := option{}, false
	if !p.charged || p.borrowed || !w.mayEvictMore(1) || !w.reclaimable() || k.failedTrial == w.journal.current {
		return best, false
	}
	tried := 0
	for j := range w.borrowers {
		i := w.borrowers[j].node
		n := &w.nodes[i]
		if !w.admits(k, n) || w.lacks(k, &w.borrowers[j].capacity) != "" || n.tier != tierNow && n.since != PodLeaving || !w.rulesAllow(k, n) {
			continue
		}
		if tried++; tried > maxBorrowers {
			break
		}
		victims := w.enough(k, n, w.victims(i), p.pod.Tenant)
		if len(victims) == 0 || !w.mayEvictMore(len(victims)) {
			continue
		}
		o := option{kind: OptionReclaim, node: i, victims: victims, at: w.now.Add(gracePeriod),
			cost: w.waitCost(k, p.pod.Priority, gracePeriod) + w.loss(victims, w.restart(i))}
		if !found || o.cost < best.cost || o.cost == best.cost && youngest(o.victims).After(youngest(best.victims)) {
			best, found = o, true
		}
	}
	if !found {
		// What cannot be reclaimed for one pod of a kind cannot be for the next,
		// as long as no trial is reverted.
		k.failedTrial = w.journal.current
	}
	return best, found
}

// mayEvictMore reports whether the plan may have n more evictions. For a gang,
// those beyond the policy's bounds are left to a later reconcile.
func (w *world) mayEvictMore(n int) bool {
	if w.policy.MaxEvictionsPerReconcile <= 0 || w.policy.MaxActionsPerReconcile <= 0 {
		return false
	}
	return w.staging || w.evictionBound(n) == ""
}

// youngest is the latest creation time of the pods: the least work to lose.
func youngest(pods []*Pod) time.Time {
	var last time.Time
	for _, p := range pods {
		last = later(last, p.Created)
	}
	return last
}

// enough picks, of the victims in order, those whose eviction makes the kind
// fit; none where all of them do not. No tenant is left with less than its
// guarantee, and no budget is exceeded.
func (w *world) enough(k *kind, n *nodeState, victims []*Pod, tenant string) []*Pod {
	if len(victims) == 0 {
		return nil
	}
	r := n.capacity.clone()
	borrowed := map[string]quota.Amount{}
	spent := map[string]int{}
	var chosen []*Pod
	for _, v := range victims {
		if v.Tenant == tenant || !w.affordable(v, borrowed, spent) {
			continue
		}
		w.putBack(n.onHealthy(v), &r)
		chosen = append(chosen, v)
		if w.lacks(k, &r) == "" {
			return w.fewest(k, n, &r, chosen)
		}
	}
	return nil
}

// affordable subtracts a pod from what its tenant has borrowed and from its
// budgets, where both allow it.
func (w *world) affordable(v *Pod, borrowed map[string]quota.Amount, spent map[string]int) bool {
	if !w.canAfford(v, borrowed, spent) {
		return false
	}
	borrowed[v.Tenant] = w.borrowedOf(v, borrowed).Sub(w.amountOf(v))
	for _, b := range v.Budgets {
		spent[b.Name]++
	}
	return true
}

func (w *world) canAfford(v *Pod, borrowed map[string]quota.Amount, spent map[string]int) bool {
	if !w.amountOf(v).Fits(w.borrowedOf(v, borrowed)) {
		return false
	}
	return !slices.ContainsFunc(v.Budgets, func(b Budget) bool { return w.budgets[b.Name]-spent[b.Name] <= 0 })
}

// borrowedOf is what a pod's tenant has borrowed, less what has been
// subtracted.
func (w *world) borrowedOf(v *Pod, borrowed map[string]quota.Amount) quota.Amount {
	if left, known := borrowed[v.Tenant]; known {
		return left
	}
	return w.tree.Borrowed(v.Tenant)
}

// fewest drops the victims without whose eviction the kind fits as well.
func (w *world) fewest(k *kind, n *nodeState, r *capacity, chosen []*Pod) []*Pod {
	return slices.DeleteFunc(chosen, func(v *Pod) bool {
		w.takeRunning(n.onHealthy(v), r)
		if w.lacks(k, r) == "" {
			return true
		}
		w.putBack(n.onHealthy(v), r)
		return false
	})
}

// commitReclaim evicts the victims and reserves their capacity.
func (w *world) commitReclaim(p *pending, k *kind, o option, alternative string) {
	names := make([]string, len(o.victims))
	for i, v := range o.victims {
		names[i] = v.Key()
		w.evict(o.node, v, ReclaimBorrowed, fmt.Sprintf("%s of %s is guaranteed what %s has borrowed; %.2f%s",
			p.pod.Key(), p.pod.Tenant, v.Tenant, o.cost, alternative), p.pod.Key())
	}
	w.reindex(o.node)
	w.commitWait(p, k, o)
	if p.reason != BoundReached {
		p.detail = fmt.Sprintf("on %s when %s has left", w.nodes[o.node].name, strings.Join(names, ", "))
	}
}

// evict adds the eviction of a running pod, or leaves it to a later reconcile
// where a bound delays it; its devices are supply after the grace period.
func (w *world) evict(node int, v *Pod, reason Reason, detail, forPod string) {
	n := w.touch(node)
	a := Action{Verb: Reclaim, Pool: n.Pool, Node: n.name, Pod: v.Key(), Reason: reason, Detail: detail, Cost: w.loss([]*Pod{v}, w.restart(node))}
	if forPod != "" {
		a.For = []string{forPod}
	}
	bound := w.evictionBound(1)
	w.spend(v)
	if bound == "" {
		w.addAction(a)
		w.evicted++
	} else {
		n.later = bound
		w.evictedLater[v] = forPod // as spend reverts it
	}
	if t := w.tenantIndex(v); t >= 0 {
		if tree, err := w.tree.Remove(v.Tenant, w.amountOf(v)); err == nil {
			w.tree = tree
		}
	}
	w.putBack(n.onHealthy(v), &n.capacity)
	w.place(v, node, -1)
	n.leaving++
	n.at = later(n.at, w.now.Add(gracePeriod))
	n.changeAt = later(n.changeAt, n.at)
	n.tier, n.since = tierChange, PodLeaving
}
