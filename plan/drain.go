package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RemoveDelay is the least time from the cordon of a node to its removal, as
// cluster-autoscaler's node-delete-delay-after-taint: a pod that the scheduler was
// binding to the node at the cordon arrives within it.
const RemoveDelay = 5 * time.Second

// frees reports a drain that may be ended for a pending pod.
func (d *Draining) frees() bool { return d.Reason == NodeUnderused || d.Reason == NodeEmpty }

// reopens reports a node in a drain that may be ended for a pending pod.
func (w *world) reopens(n *nodeState) bool {
	return n.since == NodeDraining && n.draining() && n.Drain.frees() && w.may(n.pool)
}

// reopen ends the drain of a node for a pending pod. The next reconcile may repartition its GPUs.
func (w *world) reopen(n *nodeState, p *pending, why string) {
	w.giveUp(n, NodeNeeded, p.pod.Key()+why+", so it is not removed")
	n.tier, n.since, n.at = tierChange, NodeUpcoming, w.now
	n.changeAt = later(n.changeAt, w.now.Add(aMoment))
}

// draining reports a node of a pool that is being drained.
func (n *nodeState) draining() bool { return n.Drain != nil && n.pool != nil }

// countDrain counts a node that is being drained in its pool. An underused or empty node counts
// as removed from the pool already; a sick one counts because a pool replaces one at a time.
func (w *world) countDrain(i int) {
	n := &w.nodes[i]
	switch p := n.pool; {
	case n.Drain == nil, n.Drain.Reason == NodeInterrupted:
	case n.Drain.Reason == NodeSick:
		p.replacing++
	default:
		p.draining++
		w.reopenable = append(w.reopenable, i)
	}
}

// reopenFor ends the drain of an underused node that a pod fits on: no node is
// added while one has only to be uncordoned. Sick nodes stay in their drain.
func (w *world) reopenFor(p *pending) bool {
	for _, i := range w.reopenable {
		n := &w.nodes[i]
		if !w.reopens(n) || !n.admits(p.kind) || !w.topology.rulesAllow(p.kind, n) || w.models.lacks(p.kind, &n.capacity) != "" {
			continue
		}
		w.reopen(w.touch(i), p, " fits on it")
		w.reindex(i)
		p.chosen = choice{OptionWait, n.name}
		w.commitWait(p, option{node: i})
		return true
	}
	return false
}

// giveUp ends a node's drain and uncordons it. DrainCooldown delays the pool's next
// drain.
func (w *world) giveUp(n *nodeState, reason Reason, detail string) {
	w.actions.on(n, Action{Verb: Uncordon, Reason: reason, Detail: detail})
	if n.Drain.Reason != NodeEmpty {
		w.state.LastDrain = with(w.state.LastDrain, n.Pool, w.now)
	}
	if n.Drain.frees() {
		w.touchPool(n.pool).draining--
	}
}

// continueDrains continues drains, completes them or gives them up. Capacity on
// other nodes stays reserved for the remaining pods.
func (w *world) continueDrains() {
	for i, n := range w.eachNode() {
		if n.draining() && n.decided.reason == "" && n.Drain.Reason != NodeSick {
			w.continueDrain(i)
		}
	}
}

func (w *world) continueDrain(node int) {
	n := &w.nodes[node]
	stay := n.staying()
	toGo := "deadline in " + short(n.Drain.Deadline.Sub(w.now))
	if late := w.now.Sub(n.Drain.Deadline); late > 0 {
		toGo = "deadline passed " + short(late) + " ago"
	}
	n.decided = verdict{NodeDraining, count(len(stay), "pod") + " remaining, " + toGo}
	if frozen := w.hold == Frozen || w.hold == "" && n.pool.Freeze; frozen && !w.actions.full() { // which prevents new drains only
		w.giveUp(n, Frozen, count(len(stay), "pod")+" remaining; frozen pools are not drained")
		return
	}
	if !w.may(n.pool) {
		return
	}
	if n.Drain.Reason == NodeInterrupted {
		w.continueEvacuation(n, stay)
		return
	}
	if n.Drain.Reason == NodeEmpty && len(stay) > 0 {
		w.giveUp(n, NodeBusy, stay[0].Key()+" was bound to the node while it was cordoned")
		return
	}
	why := w.drainFails(node, stay)
	switch {
	case why.reason == "" && n.Operation == nil && n.drained() && w.now.Sub(n.Drain.Started) < RemoveDelay:
		n.decided.detail = "empty; removed once it has been cordoned for " + short(RemoveDelay)
	case why.reason == "" && n.Operation == nil && n.drained():
		w.endDrain(n)
	case why.reason == "" && w.now.After(n.Drain.Deadline) && len(stay) == 0 && n.leaving > 0: // their grace periods are longer
		n.decided.detail = n.leftText(stay) + ", " + toGo
	case w.now.After(n.Drain.Deadline):
		w.fail(n.name)
		w.giveUp(n, DrainOverdue, n.leftText(stay)+" after "+short(w.now.Sub(n.Drain.Started)))
	case why.reason != "":
		if why.reason == DrainOverdue {
			w.fail(n.name)
		}
		w.giveUp(n, why.reason, why.detail)
	case n.Operation == nil && slices.ContainsFunc(stay, w.evictions.movable):
		w.drain(n, n.Drain.Deadline, n.Drain.Reason, n.decided.detail)
		n.decided.reason = NodeDraining
	}
}

// staying are the pods that keep a node from being empty and are not being evicted,
// those that request the most first.
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

// drained reports a node that is empty. A node that became unready meanwhile is
// not removed.
func (n *nodeState) drained() bool {
	if n.Drain.Reason == NodeSick {
		return n.vacant()
	}
	return n.since == NodeDraining && n.vacant() && !n.unknown
}

// vacant reports a node without pods whose GPUs are not known to be in use. The
// allocation of a sick GPU may stay unknown.
func (n *nodeState) vacant() bool {
	return n.bound == 0 && !n.inUse()
}

// inUse reports a node with a GPU that is known to be allocated to a pod that keeps the node. Stuck pods do not keep
// it. DaemonSet pods keep it only where they have more than half of its GPUs, as in cluster-autoscaler.
func (n *nodeState) inUse() bool {
	daemons := 0
	for c := range n.GPUs {
		ofDaemon := false
		for pod := range n.GPUs[c].uses() {
			at := slices.IndexFunc(n.pods, func(p *Pod) bool { return p.Key() == pod })
			switch {
			case at >= 0 && n.pods[at].DaemonSet:
				ofDaemon = true
			case at < 0 || !slices.Contains(n.stuck, n.pods[at]):
				return true
			}
		}
		if ofDaemon {
			daemons++
		}
	}
	return 2*daemons > len(n.GPUs)
}

// drainFails returns why a drain is pointless or cannot succeed; no reason where it
// can.
func (w *world) drainFails(node int, stay []*Pod) verdict {
	n := &w.nodes[node]
	underused := n.Drain.Reason != NodeSick
	switch {
	case n.pool.Fixed: // it was not fixed when the drain began
		return verdict{PoolFixed, "a fixed pool removes no node"}
	case underused && n.NoScaleDown:
		return verdict{NodeBusy, "scale down is disabled for it"}
	case !underused && !n.sick:
		return verdict{Steady, "no GPU is sick any more"}
	}
	if why := w.stays(stay, n.Drain.Deadline); why != "" {
		return verdict{DrainOverdue, why}
	}
	var stuck *Pod
	if underused && !w.try(func() bool { _, stuck = w.moveAway(node, stay); return stuck == nil }) {
		return verdict{DrainOverdue, stuck.Key() + " fits nowhere else any more"}
	}
	return verdict{}
}

// stays returns why one of the pods cannot have left by a deadline, empty where all can.
func (cond *conditions) stays(pods []*Pod, deadline time.Time) string {
	for _, p := range pods {
		switch {
		case !p.Evictable:
			return strings.TrimSuffix(p.Key()+" may not be moved: "+p.Pinned, ": ")
		case cond.policy.keepsStorage(p):
			return p.Key() + " has local storage, and policy.skipNodesWithLocalStorage is set"
		case p.comesBack():
			return p.Key() + " tolerates the cordon, and would be bound to the node again"
		case p.EvictFrom.After(deadline):
			return fmt.Sprintf("%s may not be moved before its next checkpoint, in %s", p.Key(), short(p.EvictFrom.Sub(cond.now)))
		}
	}
	return ""
}

// CordonTaint is on every node that is cordoned, UnreadyTaint on every one that is not ready.
var (
	CordonTaint  = Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}
	UnreadyTaint = Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}
)

// comesBack reports a pod that tolerates the cordon of a node: once it is evicted, the scheduler may bind
// its successor to the same node.
func (p *Pod) comesBack() bool { return tolerated(p.Tolerations, CordonTaint) }

// endDrain removes or replaces a node that has become empty.
func (w *world) endDrain(n *nodeState) {
	p := n.pool
	took := "empty " + short(w.now.Sub(n.Drain.Started)) + " after the drain began"
	switch {
	case n.Drain.Reason == NodeSick:
		if p.stop == "" {
			w.replace(n, NodeDrained, took)
		}
	case w.keepsOne(p) == AtMin:
		w.giveUp(n, AtMin, p.minText(min(p.Target, p.Size)-p.shrunk))
	case w.keepsOne(p) == CoolingDown:
		n.decided = verdict{CoolingDown, "empty, and its pool grows in this reconcile"}
	case n.Drain.Reason == NodeEmpty: // counted when its removal was decided
		p.draining--
		w.takeAway(n, NodeEmpty, took)
	case w.keepsOne(p) != "" && w.now.After(n.Drain.Deadline):
		w.giveUp(n, BoundReached, "empty, and the limit on removals is reached")
	case w.keepsOne(p) != "":
		n.decided = verdict{BoundReached, "empty, and the limit on removals is reached"}
	default:
		p.draining--
		w.remove(n, NodeDrained, took)
	}
}

// drain cordons a node and evicts those of its pods that may be evicted now.
func (w *world) drain(n *nodeState, deadline time.Time, reason Reason, detail string) {
	w.actions.on(n, Action{Verb: Drain, Deadline: deadline, Reason: reason, Detail: detail})
	for _, p := range n.staying() {
		if w.evictions.movable(p) || reason == NodeInterrupted && w.evictions.mayLeave(n, p) {
			w.evictions.spend(p)
		}
	}
	n.tier, n.since = tierOut, NodeDraining
}

// moveAway reserves capacity for each of a node's pods that is not expendable, on other nodes
// in service without a sick GPU. to is how many of them each node takes. stuck is the first pod
// that fits nowhere, nil for none; a pod of unknown demand fits nowhere. Precondition: a trial.
func (w *world) moveAway(node int, pods []*Pod) (to map[int]int, stuck *Pod) {
	to = map[int]int{}
	for _, p := range pods {
		k := w.kindOf(p)
		if w.topology.place(p, node, -1); w.policy.expendable(p) {
			continue
		}
		n := w.sound(k)
		if n < 0 || p.Unreadable != "" {
			return to, p
		}
		w.assign(k, n)
		to[n]++
	}
	return to, nil
}

// leftText states what kept a node from becoming empty.
func (n *nodeState) leftText(stay []*Pod) string {
	switch {
	case len(stay) > 0:
		return stay[0].Key() + " is still there"
	case n.bound > 0:
		return count(n.bound, "pod") + " still leaving"
	}
	return "its GPUs are still allocated, or their allocation is unknown"
}

// unknownPod is a pod to which one of the node's GPUs is allocated and that is
// not bound to the node, empty for none.
func (n *nodeState) unknownPod() string {
	for c := range n.GPUs {
		for pod := range n.GPUs[c].uses() {
			if !n.runs(pod) {
				return pod
			}
		}
	}
	return ""
}

func (n *nodeState) runs(key string) bool {
	namespace, name, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(n.pods, func(p *Pod) bool { return p.Name == name && p.Namespace == namespace })
}

// evacuate drains nodes whose interruption the provider has announced. It ignores
// MaxDrains and costs, and reserves capacity first: pods that fit nowhere else get
// an upcoming node, or a new one is requested before they are evicted.
func (w *world) evacuate() {
	for i, n := range w.eachNode() {
		if n.pool == nil || !n.LeavesAt.After(w.now) || !w.may(n.pool) {
			continue
		}
		stay := n.staying()
		w.reserveElsewhere(i, stay)
		n = &w.nodes[i] // the slice may have grown
		if n.Drain == nil && n.Operation == nil && n.action < 0 && w.may(n.pool) {
			w.drain(n, n.LeavesAt, NodeInterrupted, w.interruptionText(n)+", "+count(len(stay), "pod")+" to move")
		}
	}
}

func (cond *conditions) interruptionText(n *nodeState) string {
	if late := cond.now.Sub(n.LeavesAt); late > 0 {
		return "its announced interruption is " + short(late) + " overdue"
	}
	return "its provider interrupts it in " + short(n.LeavesAt.Sub(cond.now))
}

// reserveElsewhere reserves capacity for each of a node's pods that returns: free or upcoming
// capacity, a repartitioned GPU, or a new node of any pool. No node is added for borrowed
// demand. A pod without capacity is pending once it is evicted.
func (w *world) reserveElsewhere(node int, pods []*Pod) {
	w.serving.expecting = 0
	tree := w.quotas.ran
	for _, p := range pods {
		if k := w.kindOf(p); w.policy.returns(p) {
			k.unserved++
			w.serving.expecting++
			tree = w.quotas.released(tree, p)
		}
	}
	for _, p := range pods {
		k := w.kindOf(p)
		w.topology.place(p, node, -1)
		if !w.policy.returns(p) {
			continue
		}
		w.serving.expecting--
		k.unserved--
		w.further = nil
		n, borrowed := &w.nodes[node], false
		if t := w.quotas.tenantIndex(p); t >= 0 {
			tree = tree.Force(p.Tenant, w.quotas.amountOf(p))
			borrowed = !tree.Used(p.Tenant).Fits(w.quotas.tenants[t].Guarantee) && !tree.Covered(p.Tenant)
		}
		next := w.expected(p)
		next.borrowed = borrowed
		w.provide(next, NodeInterrupted, fmt.Sprintf("it has to leave %s: %s", n.name, w.interruptionText(n)), func(option) bool { return true })
	}
}

// returns reports a pod for which capacity is reserved before it is evicted: it is known to request
// GPUs, is not expendable, and has a controller. A bare pod is not created again.
func (policy *Policy) returns(p *Pod) bool {
	return !p.Demand.Zero() && !policy.expendable(p) && (p.Evictable || p.Owner != "")
}

// continueEvacuation retries evictions that were refused. A node that is empty in
// time is removed, so that its pool does not count it; one that the provider did
// not interrupt is uncordoned.
func (w *world) continueEvacuation(n *nodeState, stay []*Pod) {
	p := n.pool
	switch {
	case n.LeavesAt.IsZero():
		w.giveUp(n, NodeInterrupted, "its provider did not interrupt it")
	case n.Operation == nil && n.vacant():
		// Otherwise it stays until the provider takes it: while allocations are
		// unknown it may be in use.
		if !n.unknown && !n.NoScaleDown && !p.Fixed && w.keepsOne(p) == "" && !w.within(w.state.LastScaleDown, p.Name, 0) {
			w.remove(n, NodeInterrupted, w.interruptionText(n))
		}
	case n.LeavesAt.After(w.now) && n.Operation == nil && slices.ContainsFunc(stay, func(p *Pod) bool { return w.evictions.mayLeave(n, p) && !p.comesBack() }):
		w.drain(n, n.Drain.Deadline, NodeInterrupted, n.decided.detail)
		n.decided.reason = NodeDraining
	}
}

// LastCall is how long before an interruption pods are evicted even before
// their next checkpoint: unsaved work is lost either way, and an eviction
// respects the grace period.
const LastCall = 30 * time.Second
