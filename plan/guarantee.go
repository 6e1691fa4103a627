package plan

import (
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// reclaimGuarantees serves demand within its tenant's guarantee that was
// refused because a tenant above it is at its limit. It evicts pods of tenants
// below that limit that have borrowed, and only where the demand then fits.
func (w *world) reclaimGuarantees() {
	for u := range w.units {
		unit := &w.units[u]
		core, rest := unit.core()
		if slices.ContainsFunc(core, w.crowdedOut) {
			w.reclaimFor(unit, core)
		}
		for j, i := range rest {
			if w.crowdedOut(i) && w.pending[i].pod.Unschedulable && !w.gangUnserved(unit) {
				w.reclaimFor(unit, rest[j:j+1])
			}
		}
	}
}

// crowdedOut reports a refused pod that its tenant's guarantee would admit.
func (w *world) crowdedOut(i int) bool {
	p := &w.pending[i]
	return p.refused && p.reason == QuotaExceeded && !p.charged && w.guaranteed(p.pod)
}

// reclaimFor evicts what keeps the members out and serves all of them, or does
// nothing.
func (w *world) reclaimFor(u *unit, members []int) {
	before := make([]pending, len(members))
	for j, i := range members {
		before[j] = w.pending[i]
	}
	ok := w.try(func() bool {
		for _, i := range members {
			p := &w.pending[i]
			p.refused, p.reason, p.detail = false, "", ""
			if !w.reclaimLimit(p) || !w.chargeReadable(i) {
				return false
			}
		}
		return !slices.ContainsFunc(members, func(i int) bool { return !w.serve(i, true) })
	})
	switch {
	case !ok:
		for j, i := range members {
			w.pending[i] = before[j]
		}
	case u.gang != nil && len(members) == u.gang.lacking():
		u.gang.reason, u.gang.detail = GangServed, w.gangText(u.gang, members)
	}
}

// reclaimLimit evicts pods until the pod exceeds no limit above its tenant;
// false where that is impossible.
func (w *world) reclaimLimit(p *pending) bool {
	if !w.guaranteed(p.pod) {
		return true // beyond its guarantee nothing is evicted; charge decides
	}
	var chosen []placedPod
	for len(w.tenants) > 0 && !w.limitsHold(p.pod, chosen) {
		next, ok := w.nextEviction(p.pod, chosen)
		if !ok {
			return false
		}
		chosen = append(chosen, next)
	}
	// A later eviction can make an earlier one unnecessary.
	for j := 0; j < len(chosen); {
		if without := slices.Delete(slices.Clone(chosen), j, j+1); w.limitsHold(p.pod, without) {
			chosen = without
		} else {
			j++
		}
	}
	for _, v := range chosen {
		w.evict(v.node, v.pod, ReclaimBorrowed, fmt.Sprintf("%s of %s is guaranteed what %s has borrowed",
			p.pod.Key(), p.pod.Tenant, v.pod.Tenant), p.pod.Key())
		w.reindex(v.node)
	}
	return true
}

// placedPod is a running pod and its node.
type placedPod struct {
	node int
	pod  *Pod
}

// nextEviction is the next pod to evict: of a tenant that has borrowed, below
// the limit that is exceeded; the least urgent first, then the youngest.
func (w *world) nextEviction(p *Pod, chosen []placedPod) (placedPod, bool) {
	actions := len(w.actions) + len(chosen)
	if !w.policy.ReclaimBorrowed || w.evicted+len(chosen) >= w.policy.MaxEvictionsPerReconcile || actions >= w.policy.MaxActionsPerReconcile || w.hold != "" {
		return placedPod{}, false
	}
	full := w.fullAbove(w.without(chosen), p.Tenant, w.amountOf(p))
	borrowed, spent := map[string]quota.Amount{}, map[string]int{}
	for _, v := range chosen {
		w.affordable(v.pod, borrowed, spent)
	}
	var best placedPod
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.tier != tierNow && n.since != PodLeaving || n.pool < 0 || w.pools[n.pool].Freeze {
			continue
		}
		for _, v := range w.victims(i) {
			taken := slices.ContainsFunc(chosen, func(c placedPod) bool { return c.pod == v })
			if taken || v.Tenant == p.Tenant || !slices.Contains(w.lineage(v.Tenant), full) || best.pod != nil && evictionOrder(v, best.pod) > 0 {
				continue
			}
			if w.canAfford(v, borrowed, spent) {
				best = placedPod{i, v}
			}
		}
	}
	return best, best.pod != nil
}

// without is the quota tree after some evictions.
func (w *world) without(gone []placedPod) quota.Tree {
	tree := w.tree
	for _, v := range gone {
		if less, err := tree.Remove(v.pod.Tenant, w.amountOf(v.pod)); err == nil {
			tree = less
		}
	}
	return tree
}

// limitsHold reports whether a pod exceeds no limit after some evictions.
func (w *world) limitsHold(p *Pod, gone []placedPod) bool {
	return w.tenantIndex(p) < 0 || w.fullAbove(w.without(gone), p.Tenant, w.amountOf(p)) == ""
}
