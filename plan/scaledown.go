package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// scaleDown runs after all pending pods have been considered: it continues drains,
// removes empty nodes, replaces sick ones, reclaims idle GPUs, drains underused
// nodes, and soft taints the nodes that stay empty.
func (w *world) scaleDown() {
	w.continueDrains()
	w.removeEmpty()
	w.reclaimIdle()
	w.consolidate()
	w.softTaints()
}

// removeEmpty removes nodes that have been empty for IdleAfter and that no pending
// pod will use, the longest empty first and those with cached data last, never
// below the pool's minimum.
func (w *world) removeEmpty() {
	for _, i := range w.removable() {
		n := &w.nodes[i]
		p := n.pool
		p.surplus++
		if w.keepsPool(p) != "" || w.keepsOne(p) != "" || !w.may(n.pool) {
			continue
		}
		_, idle := w.emptiness(n)
		w.remove(n, NodeEmpty, w.emptyText(p, idle))
		n.decided = verdict{NodeEmpty, w.emptyText(p, idle)}
	}
	for _, p := range w.pools {
		if p.shrunk > p.settled {
			w.state.LastScaleDown = with(w.state.LastScaleDown, p.Name, w.now)
		}
	}
}

// remove adds the removal of a node to the plan.
func (w *world) remove(n *nodeState, reason Reason, detail string) {
	w.state.Removed = w.grown(w.state.Removed, n.Pool, 1)
	w.takeAway(n, reason, detail)
}

// takeAway is remove without a record in State.Removed: an earlier plan has recorded the node there.
func (w *world) takeAway(n *nodeState, reason Reason, detail string) {
	p := n.pool
	p.shrunk++
	if n.Drain != nil && n.Drain.Reason == NodeEmpty {
		p.settled++
	}
	w.actions.on(n, Action{Verb: RemoveNode, Reason: reason, Detail: fmt.Sprintf("%s; saves %.2f an hour", detail, p.price)})
	n.tier, n.since = tierOut, reason
}

// mayRemove reports whether this plan may remove one more node, of any pool.
func (w *world) mayRemove() bool {
	removed := 0 // as this plan decides
	for _, p := range w.pools {
		removed += p.shrunk - p.settled
	}
	return removed < w.policy.MaxRemovalsPerReconcile && w.state.RemovedLately(w.now) < w.policy.MaxRemovalsPerTenMinutes
}

// keepsOne returns why this plan removes no further node of a pool, empty for nothing.
func (w *world) keepsOne(p *poolState) Reason {
	most := max(1, int(w.policy.MaxRemovalShare*float64(max(p.Size, 0))))
	switch {
	case min(p.Target, p.Size)-p.shrunk-1 < p.Min:
		return AtMin
	case w.within(w.state.LastScaleUp, p.Name, 0):
		return CoolingDown
	case p.shrunk-p.settled >= most || !w.mayRemove():
		return BoundReached
	}
	return ""
}

// removable lists the nodes that have been empty for IdleAfter, in the order of
// removal.
func (w *world) removable() (out []int) {
	for i, n := range w.eachNode() {
		if n.pool == nil || n.virtual || n.action >= 0 {
			continue
		}
		reason, idle := w.emptiness(n)
		if after, _ := w.idleAfter(n.pool); reason == NodeEmpty && idle >= after {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		n, m := &w.nodes[a], &w.nodes[b]
		_, idle := w.emptiness(n)
		_, idleToo := w.emptiness(m)
		return cmp.Or(cmp.Compare(one(n.HoldsData), one(m.HoldsData)), cmp.Compare(idleToo, idle))
	})
	return out
}

// one is 1 for true, which comes after false.
func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func (cond *conditions) emptyText(p *poolState, idle time.Duration) string {
	_, after := cond.idleAfter(p)
	return fmt.Sprintf("empty for %s, idleAfter is %s", short(idle), after)
}

// freeDrains is how many more nodes may be drained now.
func (w *world) freeDrains() int {
	left := w.policy.MaxDrains
	for _, n := range w.eachNode() {
		verb := Verb("")
		if n.action >= 0 {
			verb = w.actions.list[n.action].Verb
		}
		if verb == Drain || n.Drain != nil && n.Drain.Reason != NodeEmpty && verb == "" {
			left--
		}
	}
	return left
}

// life is what a node of the pool costs over its life.
func (policy *Policy) life(p *poolState) float64 { return p.price * policy.NodeLife.Hours() }

// softTaints asks the scheduler to leave empty nodes empty: a node that is to be
// removed once it has been empty for IdleAfter gets a soft taint (PreferNoSchedule),
// and loses it when it is used, needed or no longer to be removed. kube-scheduler
// spreads pods over nodes by default (LeastAllocated), so the next pod would go to the
// empty node and keep it. A soft taint refuses no pod.
func (w *world) softTaints() {
	for _, n := range w.eachNode() {
		if n.pool == nil || n.action >= 0 || n.tier != tierNow || !w.may(n.pool) {
			continue
		}
		p := n.pool
		reason, idle := w.emptiness(n)
		if w.keepsEmpty(p) {
			reason = w.keepsPool(p)
		}
		want := w.policy.SoftTaints && reason == NodeEmpty
		a := Action{Verb: SoftTaint, Pool: n.Pool, Node: n.name, Reason: reason}
		switch {
		case want && !n.SoftTainted:
			a.Detail = w.emptyText(p, idle)
		case !want && n.SoftTainted:
			a.Verb, a.Detail = RemoveSoftTaint, "the node may be used"
		default:
			continue
		}
		w.actions.add(a)
	}
}
