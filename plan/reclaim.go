package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxBorrowers bounds the nodes on which evictions are tried for one pod, and the pods that choose tries one by one as
// the last to evict.
const maxBorrowers = 64

// borrowers is a node with pods of tenants that have borrowed, and its free
// capacity without all of them: what does not fit then cannot be served there.
type borrowers struct {
	node     int
	first    *Pod     // the pod that is evicted first
	lost     float64  // with first
	capacity capacity // free once all these pods have left
}

// lends reports a node from which pods may be evicted for others.
func (n *nodeState) lends() bool {
	return (n.tier == tierNow || n.since == PodLeaving) && n.pool != nil && !n.pool.Freeze
}

// findBorrowers lists the nodes with borrowers, in the eviction order of each
// node's first victim. It runs before any node is added.
func (w *world) findBorrowers() {
	w.evictions.borrowers = nil
	if !w.policy.ReclaimBorrowed || w.policy.MaxEvictionsPerReconcile <= 0 || !slices.ContainsFunc(w.quotas.tenants, func(t Tenant) bool { return !w.quotas.tree.Borrowed(t.Name).Zero() }) {
		return
	}
	for i, n := range w.eachNode() {
		if !n.lends() {
			continue
		}
		victims := w.victims(i)
		if len(victims) == 0 {
			continue
		}
		first, lost := w.next(victims, nil)
		l := borrowers{i, first.pod, lost, n.capacity.clone()}
		for _, v := range victims {
			w.models.putBack(w.models.located(n, v.pod), &l.capacity)
		}
		w.evictions.borrowers = append(w.evictions.borrowers, l)
	}
	slices.SortStableFunc(w.evictions.borrowers, func(a, b borrowers) int {
		return cmp.Or(cmp.Compare(a.first.Priority, b.first.Priority), cmp.Compare(a.lost, b.lost), evictionOrder(a.first, b.first))
	})
}

// reclaimOption finds the node where the evictions cost least, for a pod within
// its tenant's guarantee. A node with a sick GPU is to be replaced: the pod would have to
// move again.
func (w *world) reclaimOption(p *pending) (option, bool) {
	best, found := option{}, false
	if !p.charged || p.borrowed || !w.mayEvictMore(1) || !w.evictions.reclaimable() || p.kind.failedTrial == w.journal.current {
		return best, false
	}
	tried, again := 0, false
	for j := range w.evictions.borrowers {
		i := w.evictions.borrowers[j].node
		n := &w.nodes[i]
		if !n.admits(p.kind) || w.models.lacks(p.kind, &w.evictions.borrowers[j].capacity) != "" || !n.lends() {
			continue
		}
		if !w.topology.rulesAllow(p.kind, n) {
			again = true // they may let the next pod
			continue
		}
		if tried++; tried > maxBorrowers {
			break
		}
		victims := w.choose(w.victims(i), p.mayEvict, func(gone []placedPod) bool {
			r := n.capacity.clone()
			for _, v := range gone {
				w.models.putBack(w.models.located(n, v.pod), &r)
			}
			return w.models.lacks(p.kind, &r) == ""
		})
		if len(victims) == 0 || !w.mayEvictMore(len(victims)) {
			again = again || w.models.lacks(p.kind, &n.capacity) == "" // it fits once earlier evictions are done
			continue
		}
		o := option{kind: OptionReclaim, node: i, at: w.now.Add(gracePeriod)}
		for _, v := range victims {
			o.victims = append(o.victims, v.pod)
		}
		o.cost = w.policy.waitCost(p.kind, p.pod.Priority, gracePeriod) + w.lossBeside(o.victims, w.nodes[i].restart())
		if n.sick {
			o.cost += w.evictions.moveCost(p.pod, w.nodes[i].restart())
		}
		if !found || o.cost < best.cost {
			best, found = o, true
		}
	}
	if !found && !again && !w.serving.stopOnly {
		// What cannot be reclaimed for one pod of a kind cannot be for the next,
		// as long as no trial is reverted.
		p.kind.failedTrial = w.journal.current
	}
	return best, found
}

// mayEvict reports whether another tenant's pod may be evicted for this one. It may not where it has a higher priority: the
// scheduler would give its successor the GPU again.
func (p *pending) mayEvict(v *Pod) bool {
	return v.Tenant != p.pod.Tenant && v.Priority <= p.pod.Priority
}

// mayEvictMore reports whether the plan may have n more evictions. For a gang,
// those beyond the policy's bounds are left to a later reconcile.
func (w *world) mayEvictMore(n int) bool {
	return w.serving.staging || w.actions.evictionBound(n) == ""
}

// commitReclaim evicts the victims and reserves their capacity.
func (w *world) commitReclaim(p *pending, o option, alternative string) {
	more := w.lostAnyway(o)
	o.cost += more
	w.serving.spent += more
	for _, v := range o.victims {
		w.evict(o.node, v, ReclaimBorrowed, fmt.Sprintf("%s of %s is guaranteed what %s has borrowed; the eviction costs %.2f%s",
			p.pod.Key(), p.pod.Tenant, v.Tenant, o.cost, alternative), p.pod.Key())
	}
	w.reindex(o.node)
	w.commitWait(p, o)
	if p.reason != BoundReached {
		p.detail = fmt.Sprintf("on %s when %s has left", w.nodes[o.node].name, o.victimsText())
	}
}

func (o option) victimsText() string {
	names := make([]string, len(o.victims))
	for i, v := range o.victims {
		names[i] = v.Key()
	}
	return strings.Join(names, ", ")
}

// reclaimGuarantees serves demand within its tenant's guarantee that was
// refused because a tenant above it is at its limit. It evicts pods of tenants
// below that limit that have borrowed, and only where the demand then fits.
func (w *world) reclaimGuarantees() {
	for _, g := range w.queue.gangs {
		core, rest := g.core()
		if slices.ContainsFunc(core, w.crowdedOut) {
			w.reclaimFor(g, core)
		}
		for j, i := range rest {
			if w.crowdedOut(i) && w.pending[i].pod.Unschedulable && !w.gangUnserved(g) {
				w.reclaimFor(g, rest[j:j+1])
			}
		}
	}
}

// crowdedOut reports a refused pod that its tenant's guarantee would admit.
func (w *world) crowdedOut(i int) bool {
	p := &w.pending[i]
	return p.refused && p.reason == QuotaExceeded && !p.charged && w.quotas.guaranteed(p.pod)
}

// reclaimFor evicts what keeps the members out and serves all of them, or does
// nothing.
func (w *world) reclaimFor(g *gang, members []int) {
	whole := g.name != "" && len(members) == g.lacking()
	w.serving.committing, w.serving.staging = whole, whole && w.mayStage(g.name, len(members))
	ok := w.try(func() bool {
		return w.chargeAgain(members, true) && !slices.ContainsFunc(members, func(i int) bool { return !w.serve(i, true) })
	})
	if w.serving.committing, w.serving.staging = false, false; ok && whole {
		w.gangServed(g, members)
	}
}

// reclaimLimit evicts pods until one more such pod exceeds no limit of its tenant and of those
// above; false where that is impossible. It evicts only pods of tenants that have borrowed and are
// below the tenant with that limit.
func (w *world) reclaimLimit(p *pending) bool {
	if !w.quotas.guaranteed(p.pod) {
		return true // beyond its guarantee nothing is evicted; charge decides
	}
	full := ""
	holds := func(gone []placedPod) bool {
		full, _ = w.quotas.without(gone).Full(p.pod.Tenant, w.quotas.amountOf(p.pod))
		return full == ""
	}
	if holds(nil) {
		return true
	}
	if !w.policy.ReclaimBorrowed || w.hold != "" {
		return false
	}
	var from []placedPod
	for i := range w.nodes {
		if w.nodes[i].lends() {
			from = append(from, w.victims(i)...)
		}
	}
	chosen := w.choose(from, func(v *Pod) bool { return p.mayEvict(v) && w.quotas.tree.Within(v.Tenant, full) }, holds)
	if !w.mayEvictMore(len(chosen)) {
		return false
	}
	for _, v := range chosen {
		w.evict(v.node, v.pod, ReclaimBorrowed, fmt.Sprintf("%s of %s is guaranteed what %s has borrowed",
			p.pod.Key(), p.pod.Tenant, v.pod.Tenant), p.pod.Key())
		w.reindex(v.node)
	}
	return true
}
