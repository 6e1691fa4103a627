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
		w.reserveElsewhere(i, stay)
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

// reserveElsewhere reserves capacity for each of a node's pods that comes back and is not
// expendable: free, upcoming, of a repartitioned GPU, or of a new node of any pool. A pod
// without any is pending again once it is evicted.
func (w *world) reserveElsewhere(node int, pods []*Pod) {
	w.expecting = 0
	for _, p := range pods {
		if i := w.kindOf(p); w.returns(p) {
			w.kinds[i].unserved++
			w.expecting++
		}
	}
	for _, p := range pods {
		i := w.kindOf(p)
		k := &w.kinds[i]
		w.place(p, node, -1)
		if !w.returns(p) {
			continue
		}
		w.expecting--
		k.unserved--
		w.further = nil
		n := &w.nodes[node]
		w.provide(p, k, NodeInterrupted, fmt.Sprintf("it has to leave %s: %s", n.name, w.interruptionText(n)), func(option) bool { return true })
	}
}

// returns reports a pod for which capacity is kept once it has left: no controller
// creates a bare pod again.
func (w *world) returns(p *Pod) bool {
	return !w.expendable(p) && (p.Evictable || p.Owner != "")
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
		if !n.unknown && !n.NoScaleDown && !p.Fixed && w.keepsOne(p) == "" && !w.within(w.state.LastScaleDown, p.Name, 0) {
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
