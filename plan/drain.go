package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
)

// RemoveDelay is the least time from the cordon of a node to its removal, as
// cluster-autoscaler's node-delete-delay-after-taint: a pod that the scheduler was
// binding to the node at the cordon arrives within it.
const RemoveDelay = 5 * time.Second

// frees reports a drain whose node pending pods may have back.
func (d *Draining) frees() bool { return d.Reason == NodeUnderused || d.Reason == NodeEmpty }

// draining reports a node of a pool that is being drained.
func (n *nodeState) draining() bool { return n.Drain != nil && n.pool >= 0 && !n.virtual }

// countDrains counts the nodes being drained, by pool: underused ones already count
// as removed from the pool, and a pool replaces one sick node at a time.
func (w *world) countDrains() {
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.draining() && n.Drain.frees() && n.since == NodeDraining {
			w.reopenable = append(w.reopenable, i)
		}
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

// reopenFor ends the drain of an underused node that a pod fits on: no node is
// added while one has only to be uncordoned. Sick nodes stay in their drain.
func (w *world) reopenFor(p *pending, k *kind) bool {
	for _, i := range w.reopenable {
		n := &w.nodes[i]
		if n.since != NodeDraining || !w.may(n.pool) || !w.admits(k, n) || !w.rulesAllow(k, n) || w.lacks(k, &n.capacity) != "" {
			continue
		}
		n = w.touch(i)
		w.giveUp(n, NodeNeeded, fmt.Sprintf("%s fits on it, so it is not removed", p.pod.Key()))
		n.tier, n.since, n.at = tierChange, NodeUpcoming, w.now
		n.changeAt = later(n.changeAt, w.now.Add(aMoment))
		w.reindex(i)
		w.chose(p, OptionWait, n.name)
		w.commitWait(p, k, option{node: i})
		return true
	}
	return false
}

// giveUp ends a node's drain and uncordons it. DrainCooldown delays the pool's next
// drain.
func (w *world) giveUp(n *nodeState, reason Reason, detail string) {
	w.act(n, Action{Verb: Uncordon, Reason: reason, Detail: detail})
	if n.Drain.Reason != NodeEmpty {
		w.state.LastDrain = stamped(w.state.LastDrain, n.Pool, w.now)
	}
	if n.Drain.frees() {
		w.touchPool(n.pool).draining--
	}
}

// act adds an action on a node of a pool; its reason is the node's verdict too.
func (w *world) act(n *nodeState, a Action) {
	a.Pool, a.Node = n.Pool, n.name
	n.action = w.addAction(a)
	n.decided = verdict{a.Reason, a.Detail}
}

// continueDrains continues drains, completes them or gives them up. Capacity on
// other nodes stays reserved for the remaining pods.
func (w *world) continueDrains() {
	for i := range w.nodes {
		if n := &w.nodes[i]; n.draining() && n.decided.reason == "" && n.Drain.Reason != NodeSick {
			w.continueDrain(i)
		}
	}
}

func (w *world) continueDrain(node int) {
	n := &w.nodes[node]
	stay := n.staying()
	n.decided = verdict{NodeDraining, w.drainText(n, len(stay))}
	if w.frozen(n.pool) && w.mayFinish() {
		w.giveUp(n, Frozen, count(len(stay), "pod")+" left; frozen pools are not drained")
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
		w.giveUp(n, NodeBusy, stay[0].Key()+" was bound to it during its cordon")
		return
	}
	why := w.drainFails(node, stay)
	switch {
	case why.reason == "" && n.Operation == nil && w.drained(n) && w.now.Sub(n.Drain.Started) < RemoveDelay:
		n.decided.detail = "empty, and cordoned for less than " + short(RemoveDelay)
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
func (w *world) drained(n *nodeState) bool {
	if n.Drain.Reason == NodeSick {
		return n.vacant()
	}
	return n.since == NodeDraining && n.vacant() && n.allocationKnown()
}

// vacant reports a node without pods whose GPUs are not known to be allocated. The
// allocation of a sick GPU may stay unknown.
func (n *nodeState) vacant() bool {
	if n.bound > 0 {
		return false
	}
	for c := range n.GPUs {
		device := &n.GPUs[c]
		allocated := len(device.AllocatedTo) > 0 || slices.ContainsFunc(device.Instances, func(in Instance) bool { return in.AllocatedTo != "" })
		if allocated {
			return false
		}
	}
	return true
}

// drainFails returns why a drain is pointless or cannot succeed; no reason where it
// can.
func (w *world) drainFails(node int, stay []*Pod) verdict {
	n := &w.nodes[node]
	underused := n.Drain.Reason != NodeSick
	switch {
	case w.pools[n.pool].Fixed: // it was not fixed when the drain began
		return verdict{PoolFixed, "a fixed pool removes no node"}
	case underused && n.NoScaleDown:
		return verdict{NodeBusy, "scale down is disabled for it"}
	case !underused && !n.unusual.sick:
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

// stays returns why one of the pods cannot have left by a deadline, empty for none.
func (w *world) stays(pods []*Pod, deadline time.Time) string {
	for _, p := range pods {
		switch {
		case !p.Evictable:
			return p.Key() + " may not be moved"
		case w.keepsStorage(p):
			return p.Key() + " has local storage, and policy.skipNodesWithLocalStorage is set"
		case p.EvictFrom.After(deadline):
			return fmt.Sprintf("%s may not be moved before its next checkpoint, in %s", p.Key(), short(p.EvictFrom.Sub(w.now)))
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
	case w.within(w.state.LastScaleUp, p.Name, 0):
		n.decided = verdict{CoolingDown, "empty, and its pool grows in this reconcile"}
	case n.Drain.Reason == NodeEmpty: // counted when its removal was decided
		p.draining--
		w.takeAway(n, NodeEmpty, took)
	case !w.mayRemove() || p.shrunk-p.settled >= w.mostRemoved(p):
		n.decided = verdict{BoundReached, "empty, and the bound on removals is reached"}
	default:
		p.draining--
		w.remove(n, NodeDrained, took)
	}
}

// drain cordons a node and evicts those of its pods that may be evicted now.
func (w *world) drain(n *nodeState, deadline time.Time, reason Reason, detail string) {
	w.act(n, Action{Verb: Drain, Deadline: deadline, Reason: reason, Detail: detail})
	for _, p := range n.staying() {
		if w.movable(p) || reason == NodeInterrupted && w.mayLeave(n, p) {
			w.spend(p)
		}
	}
	n.tier, n.since = tierOut, NodeDraining
}

// moveAway reserves capacity for each of a node's pods that is not expendable on
// other nodes in service without a sick GPU. It returns those nodes, and the first pod without
// any, nil for none. Precondition: a trial.
func (w *world) moveAway(node int, pods []*Pod) (to map[int]int, stuck *Pod) {
	to = map[int]int{}
	for _, p := range pods {
		i := w.kindOf(p)
		k := &w.kinds[i]
		if w.expendable(p) {
			w.place(p, node, -1)
			continue
		}
		if k.tied() { // topology is counted for pending pods only
			return to, p
		}
		w.place(p, node, -1)
		n := w.tightest(k)
		if n < 0 || w.nodes[n].unusual.sick {
			return to, p
		}
		w.assign(k, n)
		to[n]++
	}
	return to, nil
}

// drainText is "2 pods left, 8m to go".
func (w *world) drainText(n *nodeState, left int) string {
	return fmt.Sprintf("%s left, %s to go", count(left, "pod"), short(n.Drain.Deadline.Sub(w.now)))
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

// reserveElsewhere reserves capacity for each of a node's pods that is not expendable: free, upcoming,
// or of a new node of any pool. A pod without any is pending again once it is
// evicted.
func (w *world) reserveElsewhere(node int, pods []*Pod) {
	w.expecting = len(pods)
	for _, p := range pods {
		w.expecting--
		i := w.kindOf(p)
		k := &w.kinds[i]
		w.place(p, node, -1)
		if w.expendable(p) {
			continue
		}
		to := w.tightest(k)
		if to < 0 || w.nodes[to].unusual.sick {
			to = w.soonest(k)
		}
		if to >= 0 {
			w.assign(k, to)
			continue
		}
		o, ok := w.scaleUpOption(len(w.pending), k, p, false)
		if !ok || o.node < 0 && (w.delays(o) != "" || !w.may(o.pool)) {
			continue
		}
		if o.node < 0 {
			n := &w.nodes[node]
			o.node = w.newNode(o, func() (Reason, string) {
				return NodeInterrupted, fmt.Sprintf("%s has to leave %s: %s", p.Key(), n.name, w.interruptionText(n))
			})
		}
		w.claim(&pending{pod: p, kind: i}, k, o)
	}
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

// recordSick records since when nodes have had a sick GPU. Records of recovered
// nodes are dropped.
func (w *world) recordSick() {
	var sick []Stamp
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || !n.unusual.sick {
			continue
		}
		at, ok := stampAt(w.state.SickSince, n.name)
		if !ok || at.After(w.now) {
			at = w.now
		}
		sick = append(sick, Stamp{n.name, at})
		w.pools[n.pool].sick++
	}
	w.state.SickSince = sortedStamps(sick)
}

// replaceSick continues the drains of sick nodes and begins new ones, before
// demand is served: the node that follows a sick one is upcoming supply.
func (w *world) replaceSick() {
	for i := range w.nodes {
		if n := &w.nodes[i]; n.draining() && n.Drain.Reason == NodeSick && n.decided.reason == "" {
			w.continueDrain(i)
			if p := &w.pools[n.pool]; (n.action < 0 || w.actions[n.action].Verb == Drain) && p.stop == "" && !p.Fixed {
				next := w.addVirtual(n.pool, w.now.Add(gracePeriod+p.ReadyAfter), -1)
				for _, q := range w.nodes[i].staying() { // they will need it
					w.takeRunning(q, &w.nodes[next].capacity)
				}
			}
		}
	}
	w.replaceNext()
}

// replaceNext replaces nodes with a GPU that has been sick for long enough, one
// for each pool and the longest sick first: at once where nothing runs, else by
// a drain. It does not require free capacity for the pods: the GPU they use may
// be the sick one.
func (w *world) replaceNext() {
	for _, i := range w.sickForLong() {
		n := &w.nodes[i]
		text := w.sickText(n)
		switch why := w.keepsSick(n); {
		case why != "":
			n.decided = verdict{NodeSick, text + "; " + why}
		case n.vacant():
			w.pools[n.pool].does = verdict{NodeSick, "replaces " + n.name}
			w.replace(n, NodeSick, text)
		default:
			p := &w.pools[n.pool]
			p.replacing++
			p.does = verdict{NodeSick, "drains " + n.name}
			w.drain(n, w.now.Add(w.policy.DrainTimeout), NodeSick, text+", "+count(len(n.staying()), "pod")+" to move")
		}
	}
}

// sickForLong lists the nodes to replace, without those already decided about,
// the longest sick first.
func (w *world) sickForLong() []int {
	if w.policy.SickAfter <= 0 {
		return nil
	}
	since := slices.Clone(w.state.SickSince)
	slices.SortStableFunc(since, func(a, b Stamp) int { return a.At.Compare(b.At) })
	var out []int
	for _, s := range since {
		i := w.nodeIndex(s.Name)
		if i >= 0 && w.nodes[i].decided.reason == "" && w.now.Sub(s.At) >= w.policy.SickAfter {
			out = append(out, i)
		}
	}
	return out
}

func (w *world) sickText(n *nodeState) string {
	at, _ := stampAt(w.state.SickSince, n.name)
	return "a GPU has been sick for " + short(w.now.Sub(at))
}

// keepsSick returns why a sick node is not replaced now, empty for no reason.
func (w *world) keepsSick(n *nodeState) string {
	p := &w.pools[n.pool]
	switch {
	case !w.may(n.pool):
		return "nothing may be done now"
	case p.Fixed:
		return "the pool is fixed: no other node replaces it"
	case p.stop != "":
		return "the pool cannot add another: " + string(p.stop)
	case w.within(w.state.LastScaleDown, p.Name, w.policy.RemovalInterval):
		return "the pool removed a node a moment ago"
	case w.tooManySick(p):
		return w.manySickText(p)
	case p.replacing > 0:
		return "another of the pool is being replaced"
	case w.within(w.state.LastReplace, p.Name, w.policy.ReplaceInterval):
		at, _ := stampAt(w.state.LastReplace, p.Name)
		return fmt.Sprintf("another of the pool was replaced %s ago, %s have to lie between", short(w.now.Sub(at)), short(w.policy.ReplaceInterval))
	case n.action >= 0 || n.Operation != nil || n.CordonedBy != "" || n.promised > 0:
		return "another action is under way there"
	case n.since == NodeCordoned:
		return "it is cordoned"
	case n.NoScaleDown:
		return "scale down is disabled for it"
	case n.vacant():
		return ""
	}
	return w.keepsFromDrain(n)
}

// keepsFromDrain returns why a sick node with pods cannot be drained now.
func (w *world) keepsFromDrain(n *nodeState) string {
	if w.freeDrains() <= 0 {
		return fmt.Sprintf("%s may be drained at a time", count(w.policy.MaxDrains, "node"))
	}
	if f := w.failure(n.name); f.Count > 0 && w.now.Sub(f.At) < drainAgainAfter {
		return fmt.Sprintf("its drain was given up %s ago", short(w.now.Sub(f.At)))
	}
	if why := w.stays(n.staying(), w.now.Add(w.policy.DrainTimeout)); why != "" {
		return why
	}
	if why := w.soundWork(n); why != "" {
		return why
	}
	if h := n.unknownPod(); h != "" {
		return h + " has a GPU of the node allocated, and is not one of its pods"
	}
	return ""
}

// soundWork returns why a sick node's pods are not moved: none of them uses a
// sick GPU, and what they would lose is more than the GPU costs while it is
// of no use, for a node's life or for as long as it has been sick.
func (w *world) soundWork(n *nodeState) string {
	sick := 0
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if device.Health != gpu.Sick {
			continue
		}
		if !n.facts[c].free { // allocated, or perhaps
			return ""
		}
		sick++
	}
	at, _ := stampAt(w.state.SickSince, n.name)
	idle := float64(sick) * w.gpuPrice(n.name) * max(w.policy.NodeLife, w.now.Sub(at)).Hours()
	lost := w.loss(n.staying(), w.restart(w.nodeIndex(n.name)))
	if lost <= idle {
		return ""
	}
	return fmt.Sprintf("nothing uses it, and moving %s would cost %.2f, against %.2f for the GPU", count(len(n.staying()), "pod"), lost, idle)
}

// unknownPod is a pod to which one of the node's GPUs is allocated and that is
// not bound to the node, empty for none.
func (n *nodeState) unknownPod() string {
	for c := range n.GPUs {
		device := &n.GPUs[c]
		for _, h := range device.AllocatedTo {
			if !n.runs(h) {
				return h
			}
		}
		for i := range device.Instances {
			if h := device.Instances[i].AllocatedTo; h != "" && !n.runs(h) {
				return h
			}
		}
	}
	return ""
}

func (n *nodeState) runs(key string) bool {
	for _, p := range n.pods {
		if namespace, name, _ := strings.Cut(key, "/"); name == p.Name && namespace == p.Namespace {
			return true
		}
	}
	return false
}

// tooManySick reports a pool with so many sick nodes that a common cause is
// likely: a driver, an image, or the health data.
func (w *world) tooManySick(p *poolState) bool {
	return p.sick > 1 && float64(p.sick) > w.policy.MaxSickShare*float64(max(p.Size, p.sick))
}

func (w *world) manySickText(p *poolState) string {
	return fmt.Sprintf("%d of %d nodes are sick, more than %.0f %%: a common cause is likely, and none is replaced",
		p.sick, max(p.Size, p.sick), 100*w.policy.MaxSickShare)
}

// replace removes a node and has its pool make another.
func (w *world) replace(n *nodeState, reason Reason, detail string) {
	w.act(n, Action{Verb: Replace, Reason: reason, Detail: detail})
	n.tier, n.since = tierOut, reason
	w.addSpare(n.pool, w.now.Add(w.pools[n.pool].ReadyAfter), -1)
	w.state.LastReplace = stamped(w.state.LastReplace, n.Pool, w.now)
	// Its successor is upcoming from now on, as after a scale up.
	w.state.LastScaleUp = stamped(w.state.LastScaleUp, n.Pool, w.now)
}
