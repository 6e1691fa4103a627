package plan

import (
	"fmt"
	"slices"
	"time"
)

// evacuate empties nodes whose provider has given notice. It is no choice, so it
// waits for no other drain, asks for no gain, and makes room first: what fits
// nowhere else gets a node on its way, or one is asked for now, rather than when
// its pods have become homeless.
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
		w.try(func() bool { w.shelter(n, stay); return true })
		n = &w.nodes[i] // there may be more of them now
		if n.Drain == nil && n.Operation == nil && !w.actsOn(n.name) && w.may(n.pool) {
			w.drain(n, n.LeavesAt, NodeInterrupted, w.noticeText(n)+", "+count(len(stay), "pod")+" to move")
		}
	}
}

// actsOn reports whether the plan does anything to a node already. That a node's
// action is not known any more does not mean so: another card of it may have been
// promised since.
func (w *world) actsOn(node string) bool {
	return slices.ContainsFunc(w.actions, func(a Action) bool { return a.Node == node })
}

func (w *world) noticeText(n *nodeState) string {
	return "its provider takes it in " + short(n.LeavesAt.Sub(w.now))
}

// shelter keeps a place for each of a node's pods: what is free, what is on its
// way, or a new node of the same pool. What finds none waits like any other pod
// once it has been evicted. Within a trial only.
func (w *world) shelter(n *nodeState, pods []*Pod) {
	for _, p := range pods {
		k := w.kindOf(p)
		to := w.tightest(&w.kinds[k])
		if to < 0 {
			to = w.soonest(&w.kinds[k])
		}
		if to < 0 {
			to = w.openFor(n, p, k)
		}
		if to >= 0 {
			w.give(&w.kinds[k], to)
		}
	}
}

// openFor returns a node of the pod's own pool that nothing uses yet, one that was
// asked for before or one that is asked for now; -1 where there is none to be had.
func (w *world) openFor(n *nodeState, p *Pod, k int) int {
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
		w.grow(n.pool, 1, NodeInterrupted, fmt.Sprintf("%s has to leave %s: %s", p.Key(), n.name, w.noticeText(n)))
		w.actions[ps.action].Cost += ps.price() * w.policy.NodeLife.Hours()
		w.addSpare(n.pool, w.now.Add(ps.ReadyAfter), ps.action)
		ps = &w.pools[n.pool]
	}
	to := ps.spare[0]
	ps.spare = ps.spare[1:]
	w.touch(to).unopened = false
	w.announce(to)
	return to
}

// continueEvacuation asks again who could not leave at first. What is empty in
// time is given back, so that its pool counts it off; one that the provider did
// not take after all is released.
func (w *world) continueEvacuation(n *nodeState, stay []*Pod) {
	p := &w.pools[n.pool]
	switch {
	case n.LeavesAt.IsZero():
		w.giveUp(n, NodeInterrupted, "its provider did not take it")
	case n.Operation == nil && n.vacant():
		// What keeps it here is that its provider takes it all the same. Until then
		// it may be held by what nobody tells of.
		if n.holdersKnown() && !n.NoScaleDown && !p.Fixed && min(p.Target, p.Size)-p.shrunk-1 >= p.Min && w.mayRemove() && p.shrunk < w.mostRemoved(p) &&
			!w.within(w.memory.LastScaleUp, p.Name, 0) && !w.within(w.memory.LastScaleDown, p.Name, 0) {
			w.remove(n, NodeInterrupted, w.noticeText(n))
		}
	case n.LeavesAt.After(w.now) && n.Operation == nil && slices.ContainsFunc(stay, func(p *Pod) bool { return w.mayLeave(n, p) }):
		w.drain(n, n.Drain.Deadline, NodeInterrupted, n.decided.detail)
		n.decided.reason = NodeDraining
	}
}

// LastCall is how long before a node is taken its pods are asked to leave whatever
// they wait for: what is not saved by then is lost either way, and a clean end is
// worth more than none.
const LastCall = 30 * time.Second

// mayLeave reports whether a pod may be asked to leave a node that is taken.
func (w *world) mayLeave(n *nodeState, p *Pod) bool {
	if w.movable(p) {
		return true
	}
	return p.Evictable && !p.Leaving && !p.DaemonSet && !w.gone[p] && !p.EvictFrom.IsZero() && n.LeavesAt.Sub(w.now) <= LastCall
}
