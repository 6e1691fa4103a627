package plan

import (
	"fmt"
	"slices"
	"time"
)

// evacuate drains nodes whose interruption the provider has announced. It ignores
// MaxDrains and costs, and reserves capacity first: pods that fit nowhere else get
// an upcoming node, or a new one is requested before they are evicted.
func (w *world) evacuate() {
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || !n.LeavesAt.After(w.now) || !w.may(n.pool) {
			continue
		}
		stay := n.staying()
		if len(stay) == 0 {
			continue
		}
		w.try(func() bool { w.reserveElsewhere(n, stay); return true })
		n = &w.nodes[i] // the slice may have grown
		if n.Drain == nil && n.Operation == nil && !w.actsOn(n.name) && w.may(n.pool) {
			w.drain(n, n.LeavesAt, NodeInterrupted, w.interruptionText(n)+", "+count(len(stay), "pod")+" to move")
		}
	}
}

// actsOn reports whether the plan has an action on a node. nodeState.action
// does not show it: a later promise on another GPU resets it.
func (w *world) actsOn(node string) bool {
	return slices.ContainsFunc(w.actions, func(a Action) bool { return a.Node == node })
}

func (w *world) interruptionText(n *nodeState) string {
	return "its provider interrupts it in " + short(n.LeavesAt.Sub(w.now))
}

// reserveElsewhere reserves capacity for each of a node's pods: free, upcoming,
// or of a new node of the same pool. A pod without any is pending again once it
// is evicted. Precondition: a trial.
func (w *world) reserveElsewhere(n *nodeState, pods []*Pod) {
	for _, p := range pods {
		k := w.kindOf(p)
		to := w.tightest(&w.kinds[k])
		if to < 0 {
			to = w.soonest(&w.kinds[k])
		}
		if to < 0 {
			to = w.claimFor(n, p, k)
		}
		if to >= 0 {
			w.assign(&w.kinds[k], to)
		}
	}
}

// claimFor returns an unclaimed upcoming node of the pod's own pool, requested
// before or by this plan; -1 where none can be added.
func (w *world) claimFor(n *nodeState, p *Pod, k int) int {
	ps := &w.pools[n.pool]
	if w.misfit(&w.kinds[k], ps) != "" {
		return -1
	}
	if len(ps.spare) == 0 {
		switch {
		case ps.Fixed, ps.stop != "", ps.base+ps.grown >= ps.Max, w.recent(ps.Name) >= w.policy.MaxNodesPerHour,
			ps.grown >= w.policy.MaxNodesPerScaleUp, ps.action < 0 && !w.may(n.pool):
			return -1
		}
		w.scaleUp(n.pool, 1, NodeInterrupted, fmt.Sprintf("%s has to leave %s: %s", p.Key(), n.name, w.interruptionText(n)))
		w.actions[ps.action].Cost += ps.price() * w.policy.NodeLife.Hours()
		w.addSpare(n.pool, w.now.Add(ps.ReadyAfter), ps.action)
		ps = &w.pools[n.pool]
	}
	to := ps.spare[0]
	ps.spare = ps.spare[1:]
	w.touch(to).unclaimed = false
	w.reindex(to)
	return to
}

// continueEvacuation retries evictions that were refused. A node that is empty in
// time is removed, so that its pool does not count it; one that the provider did
// not interrupt is uncordoned.
func (w *world) continueEvacuation(n *nodeState, stay []*Pod) {
	p := &w.pools[n.pool]
	switch {
	case n.LeavesAt.IsZero():
		w.giveUp(n, NodeInterrupted, "its provider did not interrupt it")
	case n.Operation == nil && n.vacant():
		// Otherwise it stays until the provider takes it: while allocations are
		// unknown it may be in use.
		if n.allocationKnown() && !n.NoScaleDown && !p.Fixed && min(p.Target, p.Size)-p.shrunk-1 >= p.Min && w.mayRemove() && p.shrunk-p.settled < w.mostRemoved(p) &&
			!w.within(w.state.LastScaleUp, p.Name, 0) && !w.within(w.state.LastScaleDown, p.Name, 0) {
			w.remove(n, NodeInterrupted, w.interruptionText(n))
		}
	case n.LeavesAt.After(w.now) && n.Operation == nil && slices.ContainsFunc(stay, func(p *Pod) bool { return w.mayLeave(n, p) }):
		w.drain(n, n.Drain.Deadline, NodeInterrupted, n.decided.detail)
		n.decided.reason = NodeDraining
	}
}

// LastCall is how long before an interruption pods are evicted even before
// their next checkpoint: unsaved work is lost either way, and an eviction
// respects the grace period.
const LastCall = 30 * time.Second

// mayLeave reports whether a pod may be evicted from an interrupted node now.
func (w *world) mayLeave(n *nodeState, p *Pod) bool {
	if w.mayEvict(p) {
		return true
	}
	return p.Evictable && !p.Leaving && !p.DaemonSet && !w.evictedPods[p] && !p.EvictFrom.IsZero() && n.LeavesAt.Sub(w.now) <= LastCall
}
