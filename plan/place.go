package plan

import (
	"fmt"
	"time"
)

// schedulerGrace is how long a node is not repartitioned because a pod should
// be bound to it. After that its requests stay reserved, but the scheduler
// seems to have a reason not to bind it.
const schedulerGrace = 2 * time.Minute

// admit charges every pending pod to its quota, most urgent first. A gang is
// admitted whole or not at all.
func (w *world) admit() {
	for u := range w.units {
		core, rest := w.units[u].core()
		g := w.units[u].gang
		if g != nil && core == nil && rest == nil {
			w.leavePending(g, w.units[u].members, GangIncomplete, fmt.Sprintf("%d of %d members exist", g.running+len(g.members), g.min))
			continue
		}
		if done, ok := w.together(core, func(i int) bool { return w.chargeReadable(i) }); !ok {
			p := w.pending[core[done]]
			w.leavePending(g, core, p.reason, fmt.Sprintf("would be %d of %d; %s", done+g.running, g.min, p.detail))
			for _, i := range core {
				w.pending[i].refused = true
			}
		}
		for _, i := range rest {
			w.chargeReadable(i)
		}
	}
}

// chargeReadable charges a pod, and decides at once about one without a
// readable demand.
func (w *world) chargeReadable(i int) bool {
	p := &w.pending[i]
	switch {
	case p.pod.Unreadable != "":
		p.refused, p.reason, p.detail = true, DemandUnreadable, p.pod.Unreadable
		return false
	case p.pod.Demand.Zero():
		p.served, p.reason, p.detail = true, WaitScheduler, "requests no accelerator"
		return true
	}
	return w.charge(p)
}

// undecided reports a pod about which nothing has been decided.
func (p *pending) undecided() bool { return !p.served && !p.refused && p.reason == "" }

// placeNow reserves capacity for the pods that fit now, which the scheduler
// places, whether or not it has marked them unschedulable.
func (w *world) placeNow() {
	for u := range w.units {
		core, rest := w.units[u].core()
		if len(core) > 0 && w.pending[core[0]].undecided() {
			if _, ok := w.together(core, w.placePodNow); ok {
				g := w.units[u].gang
				g.reason, g.detail = WaitScheduler, w.gangText(g, core)
			}
			for _, i := range core {
				w.countUnserved(i)
			}
		}
		for _, i := range rest { // those of a gang only once its core is placed
			if w.pending[i].undecided() && (w.gangUnserved(&w.units[u]) || !w.placePodNow(i)) {
				w.countUnserved(i)
			}
		}
	}
}

// countUnserved counts a pod among the unserved ones of its kind.
func (w *world) countUnserved(i int) {
	p := &w.pending[i]
	if !p.served && (p.pod.Unschedulable || p.pod.Gang != "") {
		w.kinds[p.kind].unserved++
		p.counted = true
	}
}

func (w *world) placePodNow(i int) bool {
	p := &w.pending[i]
	k := &w.kinds[p.kind]
	n := w.tightest(k)
	if n < 0 {
		return p.served
	}
	w.assign(k, n)
	if !p.pod.Unschedulable || w.now.Sub(p.pod.PendingSince) < schedulerGrace {
		w.nodes[n].settling = true
	}
	p.served, p.reason, p.detail = true, WaitScheduler, "fits on "+w.nodes[n].name
	w.chose(p, OptionFree, w.nodes[n].name)
	return true
}

// assign reserves capacity of a node for a pending pod of the kind.
func (w *world) assign(k *kind, node int) {
	n := w.touch(node)
	w.take(k, &n.capacity)
	w.place(k.pod, n, 1)
	n.promised++
	if n.pool >= 0 && w.pools[n.pool].MIG.Repartition && len(k.pod.Demand.MIG) > 0 {
		w.reconsiderRepartitions(node)
	}
}

// reconsiderRepartitions evaluates a node's GPUs again for the kinds that
// needed no repartition while the node had free capacity for them.
func (w *world) reconsiderRepartitions(node int) {
	if len(w.repartitionable(&w.nodes[node])) == 0 {
		return
	}
	for i := range w.kinds {
		switch k := &w.kinds[i]; {
		case !k.repartitions.built:
		case k.unserved > 0:
			k.repartitions.push(entry{0, 0, node})
		default: // few pods will use the index, and they build it
			k.repartitions.built = false
		}
	}
}

// placeRest serves what the scheduler cannot place, most urgent first, each pod
// by the cheapest option: an upcoming node, a repartition, reclaiming borrowed
// quota, a new node. Pods that the scheduler has not marked come last: no
// action is taken for them, so they must not use one taken for others.
func (w *world) placeRest(marked bool) {
	w.findBorrowers()
	for u := range w.units {
		w.serveUnit(&w.units[u], marked)
	}
}

func (w *world) serveUnit(u *unit, marked bool) {
	core, rest := u.core()
	if len(core) > 0 && w.pending[core[0]].undecided() && w.actionable(core) == marked {
		w.serveGang(u)
		_, rest = u.core() // it may have changed
	}
	for _, i := range rest {
		p := &w.pending[i]
		if !p.undecided() || p.pod.Unschedulable != marked {
			continue
		}
		w.discountUnserved(i)
		if w.gangUnserved(u) {
			p.reason, p.detail = u.gang.reason, u.gang.name+" "+u.gang.detail
			continue
		}
		if u.gang == nil || !w.placePodNow(i) {
			w.serve(i, false)
		}
	}
}

// gangUnserved reports a gang whose core is not served: further members are
// useless too.
func (w *world) gangUnserved(u *unit) bool {
	core, _ := u.core()
	return len(core) > 0 && !w.pending[core[0]].served
}

// actionable reports whether actions may be taken for a gang: the scheduler has
// marked a member unschedulable, or a member is only created once it fits.
func (w *world) actionable(core []int) bool {
	for _, i := range core {
		if w.pending[i].pod.Unschedulable || w.pending[i].pod.Unmade {
			return true
		}
	}
	return false
}

func (w *world) discountUnserved(i int) {
	p := &w.pending[i]
	if !p.counted {
		return
	}
	p.counted = false
	if k := &w.kinds[p.kind]; k.unserved > 0 {
		k.unserved--
		if k.unserved < gpuSlices {
			w.further = nil
		}
	}
}

// serve takes the cheapest option for a pod; false where there is none, which
// the pod's reason then explains.
func (w *world) serve(i int, inGang bool) bool {
	p := &w.pending[i]
	k := &w.kinds[p.kind]
	if p.served {
		return true
	}
	if inGang {
		if w.placePodNow(i) {
			return true
		}
	}
	w.consider(i)
	wait, canWait := w.waitOption(k, p.pod)
	if w.hold != "" || !p.pod.Unschedulable && !inGang {
		w.withoutAction(i, p, k, wait, canWait)
		return p.served
	}
	if k.bounded && !canWait {
		w.bounded(p)
		return false
	}
	if canWait && w.unbeatable(wait, p, k) {
		w.chose(p, OptionWait, w.nodes[wait.node].name)
		w.commitWait(p, k, wait)
		return p.served
	}
	return w.serveBest(i, p, k, wait, canWait)
}

// unbeatable reports whether an upcoming node costs less than any other option
// could: true for most pods of a reconcile after the first has added a node.
func (w *world) unbeatable(wait option, p *pending, k *kind) bool {
	if p.charged && !p.borrowed && w.reclaimable() {
		return false
	}
	return wait.cost <= w.policy.DisruptionCost+w.waitCost(k, p.pod.Priority, w.soonestRepartition()) && !wait.at.After(w.now.Add(w.soonestNode()))
}

func (w *world) serveBest(i int, p *pending, k *kind, wait option, canWait bool) bool {
	repartition, canRepartition := w.repartitionOption(k, p.pod)
	scaleUp, canScaleUp := w.scaleUpOption(i, k, p.pod, false)
	back, canReclaim := w.reclaimOption(p, k)
	if canRepartition && repartition.unknown && scaleUp.repartitions && scaleUp.node < 0 {
		canScaleUp = false // the existing GPU may turn out free, and a new node would be no better known
	}
	canScaleUp = canScaleUp && w.mayScaleUp(p)
	full := len(w.actions) >= w.policy.MaxActionsPerReconcile
	repartitionNow := canRepartition && !repartition.at.After(w.now)
	switch {
	case canWait && (!canRepartition || wait.cost <= repartition.cost) && (!canScaleUp || wait.cost <= scaleUp.cost) && (!canReclaim || wait.cost <= back.cost):
		w.chose(p, OptionWait, w.nodes[wait.node].name)
		w.commitWait(p, k, wait)
	case canRepartition && (!canScaleUp || repartition.cost <= scaleUp.cost) && (!canReclaim || repartition.cost <= back.cost):
		if full && repartitionNow {
			k.bounded = true
			w.bounded(p)
			return false
		}
		w.chose(p, OptionRepartition, w.nodes[repartition.node].name)
		w.commitRepartition(p, k, repartition, w.alternativeText(k, scaleUp, canScaleUp))
	case canReclaim && (!canScaleUp || back.cost <= scaleUp.cost):
		w.chose(p, OptionReclaim, w.nodes[back.node].name)
		w.commitReclaim(p, k, back, w.alternativeText(k, scaleUp, canScaleUp))
	case canScaleUp:
		if full && scaleUp.node < 0 && w.pools[scaleUp.pool].action < 0 {
			w.bounded(p)
			return false
		}
		w.chose(p, OptionNode, w.pools[scaleUp.pool].Name)
		w.commitScaleUp(p, k, scaleUp, repartition, canRepartition)
	default:
		p.reason, p.detail = w.unserved(p, k)
	}
	return p.served
}

// mayScaleUp reports whether nodes are added for the pod. An unclaimed upcoming
// node is not for other pods either.
func (w *world) mayScaleUp(p *pending) bool { return !p.borrowed || w.policy.ScaleUpBorrowed }

func (w *world) bounded(p *pending) {
	p.reason = BoundReached
	p.detail = fmt.Sprintf("%d actions a reconcile", w.policy.MaxActionsPerReconcile)
}

// withoutAction decides about a pod for which no action may be taken now.
func (w *world) withoutAction(i int, p *pending, k *kind, wait option, canWait bool) {
	spare, canClaim := w.scaleUpOption(i, k, p.pod, true)
	canClaim = canClaim && w.mayScaleUp(p)
	switch {
	case canWait:
		w.chose(p, OptionWait, w.nodes[wait.node].name)
		w.commitWait(p, k, wait)
	case canClaim:
		w.chose(p, OptionNode, w.pools[spare.pool].Name)
		w.claim(p, k, spare)
	case w.hold != "":
		p.reason = w.hold
	default:
		p.reason, p.detail = WaitScheduler, "the scheduler has not answered yet"
	}
}

// option is one way to serve a pod.
type option struct {
	cost         float64
	at           time.Time
	node         int
	pool         int
	repartition  repartition
	repartitions bool // the new node has to be repartitioned
	// unknown: the allocation of the GPU to repartition is unknown.
	unknown bool
	victims []*Pod // pods to evict
}

func (w *world) waitOption(k *kind, p *Pod) (option, bool) {
	n := w.soonest(k)
	if n < 0 {
		return option{}, false
	}
	at := w.nodes[n].at
	return option{cost: w.waitCost(k, p.Priority, at.Sub(w.now)), at: at, node: n}, true
}

// soonestRepartition and soonestNode are the least time that a repartition and
// a new node take in any pool.
func (w *world) soonestRepartition() time.Duration {
	least := time.Duration(-1)
	for i := range w.pools {
		if m := &w.pools[i].MIG; m.Repartition && (least < 0 || m.Duration < least) {
			least = m.Duration
		}
	}
	if least < 0 {
		return 1000 * time.Hour
	}
	return max(least, 0)
}

func (w *world) soonestNode() time.Duration {
	least := 1000 * time.Hour
	for i := range w.pools {
		least = min(least, max(w.pools[i].ReadyAfter, 0))
	}
	return least
}

func (w *world) commitWait(p *pending, k *kind, o option) {
	n := &w.nodes[o.node]
	w.assign(k, o.node)
	p.served = n.since != AllocationUnknown // otherwise it may turn out not to be free
	p.reason, p.detail = n.promise(w.now)
	if n.action >= 0 {
		a := &w.actions[n.action]
		a.For = append(a.For, p.pod.Key())
	}
}

// promise is the reason of a pod that will use the node.
func (n *nodeState) promise(now time.Time) (Reason, string) {
	in := short(n.at.Sub(now))
	switch n.since {
	case NodeUpcoming:
		return WaitUpcomingNode, fmt.Sprintf("%s, in %s", n.name, in)
	case CoolingDown:
		return CoolingDown, fmt.Sprintf("a GPU of %s can be repartitioned soon, in %s", n.name, in)
	case AllocationUnknown:
		return AllocationUnknown, fmt.Sprintf("a GPU of %s can be repartitioned once it is known to be free", n.name)
	case RepartitionDone:
		return WaitRepartition, n.name + " is being released"
	case PodLeaving:
		return WaitReclaim, fmt.Sprintf("on %s when pods have left, in about %s", n.name, in)
	default:
		return WaitRepartition, fmt.Sprintf("on %s, in %s", n.name, in)
	}
}
