package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// draining reports a node of ours that is being emptied.
func (n *nodeState) draining() bool { return n.Drain != nil && n.pool >= 0 && !n.virtual }

// countDrains counts, by pool, the nodes that are on their way out: the pool is
// as good as smaller by those that are underused, and replaces one that is sick
// at a time.
func (w *world) countDrains() {
	for i := range w.nodes {
		n := &w.nodes[i]
		switch {
		case !n.draining():
		case n.Drain.Reason == NodeSick:
			w.pools[n.pool].replacing++
		case n.Drain.Reason == NodeInterrupted:
		default:
			w.pools[n.pool].draining++
		}
	}
}

// release gives up drains of nodes that pending pods would fit on: nothing is
// bought while there is a good node that only has to be opened again. A sick node
// is none.
func (w *world) release() {
	var open []int
	for i := range w.nodes {
		if n := &w.nodes[i]; n.draining() && n.Drain.Reason == NodeUnderused && n.since == NodeDraining && w.may(n.pool) {
			open = append(open, i)
		}
	}
	left := map[int]room{} // of those released
	for j := range w.pending {
		p := &w.pending[j]
		if len(open) == 0 || !p.open() || !p.pod.Unschedulable {
			continue
		}
		k := &w.kinds[p.kind]
		for _, i := range open {
			n := &w.nodes[i]
			r, released := left[i]
			if !released {
				r = n.room.clone()
			}
			if !w.admits(k, n) || !w.rulesAllow(k, n) || w.lacks(k, &r) != "" {
				continue
			}
			if !released && !w.may(n.pool) {
				break
			}
			w.take(k, &r)
			if left[i] = r; !released {
				w.reopen(i, p.pod)
			}
			break
		}
	}
}

// reopen releases a node that was being drained: in a moment it is supply again.
func (w *world) reopen(node int, p *Pod) {
	n := &w.nodes[node]
	w.giveUp(n, NodeNeeded, fmt.Sprintf("%s fits on it, so it is not given back", p.Key()))
	n.tier, n.since, n.at = tierChange, NodeUpcoming, w.now
	n.changeAt = later(n.changeAt, w.now.Add(aMoment))
	w.announce(node)
}

// giveUp releases a node from its drain to the scheduler. The pool rests before
// the next drain.
func (w *world) giveUp(n *nodeState, reason Reason, detail string) {
	w.act(n, Action{Verb: Uncordon, Reason: reason, Detail: detail})
	w.memory.LastDrain = stamped(w.memory.LastDrain, n.Pool, w.now)
	if n.Drain.Reason == NodeUnderused {
		w.pools[n.pool].draining--
	}
}

// act adds an action on a node of ours, which is also what there is to say about
// the node.
func (w *world) act(n *nodeState, a Action) {
	a.Pool, a.Node = n.Pool, n.name
	n.action = len(w.actions)
	n.decided = verdict{a.Reason, a.Detail}
	w.actions = append(w.actions, a)
}

// continueDrains goes on with what is being emptied, ends it, or gives it up.
// The pods that are still there keep places elsewhere.
func (w *world) continueDrains() {
	for i := range w.nodes {
		if n := &w.nodes[i]; n.draining() && n.decided.reason == "" {
			w.continueDrain(i)
		}
	}
}

func (w *world) continueDrain(node int) {
	n := &w.nodes[node]
	stay := n.staying()
	n.decided = verdict{NodeDraining, w.drainText(n, len(stay))}
	if w.frozen(n.pool) && w.mayFinish() {
		w.giveUp(n, Frozen, count(len(stay), "pod")+" left; what is frozen is not drained")
		return
	}
	if !w.may(n.pool) {
		return
	}
	if n.Drain.Reason == NodeInterrupted {
		w.continueEvacuation(n, stay)
		return
	}
	why := w.drainFails(n, stay)
	switch {
	case why.reason == "" && n.Operation == nil && w.drained(n):
		w.endDrain(n)
	case w.now.After(n.Drain.Deadline):
		w.fail(n.name)
		w.giveUp(n, DrainOverdue, n.leftText(stay)+" after "+short(w.now.Sub(n.Drain.Started)))
	case why.reason != "":
		if why.reason == DrainOverdue {
			w.fail(n.name)
		}
		w.giveUp(n, why.reason, why.detail)
	case n.Operation == nil && slices.ContainsFunc(stay, w.movable):
		w.drain(n, n.Drain.Deadline, n.Drain.Reason, n.decided.detail)
		n.decided.reason = NodeDraining
	}
}

// staying are the pods that keep a node from being empty and have not been asked
// to go, those that ask for the most first.
func (n *nodeState) staying() []*Pod {
	var out []*Pod
	for _, p := range n.pods {
		if !p.DaemonSet && !p.Leaving {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *Pod) int { return cmp.Or(cmp.Compare(slicesOf(b), slicesOf(a)), byKey(a, b)) })
	return out
}

// drained reports a node that is empty. One that has become unready is not given
// back, as if it had never been drained.
func (w *world) drained(n *nodeState) bool {
	if n.Drain.Reason == NodeSick {
		return n.vacant()
	}
	return n.since == NodeDraining && n.vacant() && n.holdersKnown()
}

// vacant reports a node that no pod runs on, and whose cards nobody is known to
// hold. Of a sick card more may never be known.
func (n *nodeState) vacant() bool {
	if n.bound > 0 {
		return false
	}
	for c := range n.Cards {
		card := &n.Cards[c]
		held := len(card.Holders) > 0 || slices.ContainsFunc(card.Instances, func(in Instance) bool { return in.Holder != "" })
		if held {
			return false
		}
	}
	return true
}

// drainFails says why a drain is pointless or will not succeed; no reason where
// it may.
func (w *world) drainFails(n *nodeState, stay []*Pod) verdict {
	underused := n.Drain.Reason != NodeSick
	switch {
	case w.pools[n.pool].Fixed: // it was of another kind when the drain began
		return verdict{PoolFixed, "a fixed pool gives no node back"}
	case underused && n.NoScaleDown:
		return verdict{NodeBusy, "it says that it must not be removed"}
	case !underused && !n.odd.sick:
		return verdict{Steady, "no card is sick any more"}
	}
	if why := stays(stay, n.Drain.Deadline, w.now); why != "" {
		return verdict{DrainOverdue, why}
	}
	var stuck *Pod
	if underused && !w.try(func() bool { stuck = w.moveAway(n, stay); return stuck == nil }) {
		return verdict{DrainOverdue, stuck.Key() + " fits nowhere else any more"}
	}
	return verdict{}
}

// stays says which of the pods cannot have left by a deadline, empty for none.
func stays(pods []*Pod, deadline, now time.Time) string {
	for _, p := range pods {
		switch {
		case !p.Evictable:
			return p.Key() + " may not be moved"
		case p.EvictFrom.After(deadline):
			return fmt.Sprintf("%s may not be moved before its next checkpoint, in %s", p.Key(), short(p.EvictFrom.Sub(now)))
		}
	}
	return ""
}

// endDrain removes or replaces a node that has become empty.
func (w *world) endDrain(n *nodeState) {
	p := &w.pools[n.pool]
	took := "empty " + short(w.now.Sub(n.Drain.Started)) + " after the drain began"
	switch {
	case n.Drain.Reason == NodeSick:
		if p.stop == "" {
			w.replace(n, NodeDrained, took)
		}
	case min(p.Target, p.Size)-p.shrunk-1 < p.Min:
		w.giveUp(n, AtMin, fmt.Sprintf("the pool has %d of at least %d nodes", min(p.Target, p.Size)-p.shrunk, p.Min))
	case w.within(w.memory.LastScaleUp, p.Name, 0):
		n.decided = verdict{CoolingDown, "empty, and its pool grows in this round"}
	case !w.mayRemove() || p.shrunk >= w.mostRemoved(p):
		n.decided = verdict{BoundReached, "empty, and as many nodes as may be were given back lately"}
	default:
		p.draining--
		w.remove(n, NodeDrained, took)
	}
}

// drain asks a node's pods to leave, as many as may, and keeps the scheduler from
// giving it others.
func (w *world) drain(n *nodeState, deadline time.Time, reason Reason, detail string) {
	w.act(n, Action{Verb: Drain, Deadline: deadline, Reason: reason, Detail: detail})
	for _, p := range n.staying() {
		if w.movable(p) {
			w.gone[p] = true
			w.spend(p)
		}
	}
	n.tier, n.since = tierOut, NodeDraining
}

// moveAway gives each of a node's pods a place on another that the scheduler can
// use now, and returns the first for which there is none, nil for none. Within a
// trial only.
func (w *world) moveAway(n *nodeState, pods []*Pod) *Pod {
	for _, p := range pods {
		i := w.kindOf(p)
		k := &w.kinds[i]
		if k.tied() { // where others of its group are is counted for pending pods only
			return p
		}
		w.place(p, n, -1)
		to := w.tightest(k)
		if to < 0 {
			return p
		}
		w.give(k, to)
	}
	return nil
}

// drainText is "2 pods left, 8m to go".
func (w *world) drainText(n *nodeState, left int) string {
	return fmt.Sprintf("%s left, %s to go", count(left, "pod"), short(n.Drain.Deadline.Sub(w.now)))
}

// leftText says who kept a node from becoming empty.
func (n *nodeState) leftText(stay []*Pod) string {
	switch {
	case len(stay) > 0:
		return stay[0].Key() + " is still there"
	case n.bound > 0:
		return count(n.bound, "pod") + " still leaving"
	}
	return "its cards are still held, or nobody says by whom"
}
