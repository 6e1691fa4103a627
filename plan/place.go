package plan

import (
	"fmt"
	"slices"
	"time"
)

// schedulerGrace is how long a pod that fits a node keeps the node from being
// repartitioned: a repartition cordons the node, and many schedulers bind the members of
// a gang one by one. After that the scheduler seems to have a reason not to bind the pod:
// a repartition may begin, but the pod's requests stay reserved.
const schedulerGrace = 2 * time.Minute

// admit charges every pending pod to its quota: first what its tenant is guaranteed, then what
// it would borrow, each most urgent first. A gang is admitted whole or not at all.
func (w *world) admit() {
	for _, w.quotas.lends = range []bool{false, true} {
		for _, g := range w.queue.gangs {
			w.admitGang(g)
		}
	}
}

func (w *world) admitGang(g *gang) {
	core, rest := g.core()
	if core == nil && rest == nil {
		w.leavePending(g, g.members, GangIncomplete, fmt.Sprintf("%d of %d members exist", g.running+len(g.members), g.min))
		return
	}
	f, ok := w.allOrNone(core, w.chargeReadable)
	switch {
	case !ok && f.reason == "": // it would borrow
		return
	case !ok:
		w.leavePending(g, core, f.reason, fmt.Sprintf("would have %d of %d members; %s", f.done+g.running, g.min, f.detail))
		for _, i := range core {
			w.pending[i].refused = true
		}
	}
	for _, i := range rest {
		if p := &w.pending[i]; w.chargeReadable(i) && !ok && !p.served { // without the core it is of no use
			w.quotas.discharge(p)
			p.refused, p.reason, p.detail = true, g.reason, g.name+" "+g.detail
		}
	}
}

// chargeReadable charges a pod to its quota; false where it is not to be served. It decides
// at once about pods that are not charged: those with an unreadable demand or an unbound
// volume, expendable ones, and those that request no accelerator.
func (w *world) chargeReadable(i int) bool {
	p := w.touchPending(i)
	switch {
	case p.pod.Unreadable != "":
		p.refused, p.reason, p.detail = true, DemandUnreadable, p.pod.Unreadable
		return false
	case w.policy.expendable(p.pod):
		p.refused, p.reason, p.detail = true, Expendable, w.policy.expendableText(p.pod)
		return false
	case p.pod.Unbound != "":
		p.refused, p.reason, p.detail = true, VolumeUnbound, p.pod.Unbound
		return false
	case p.pod.Demand.Zero():
		p.served, p.reason, p.detail = true, WaitScheduler, "requests no accelerator"
		return true
	}
	return w.quotas.charge(p)
}

// expendable reports a pod for which nothing is done.
func (policy *Policy) expendable(p *Pod) bool {
	return int(p.Priority) < policy.ExpendablePodsPriorityCutoff
}

func (policy *Policy) expendableText(p *Pod) string {
	return fmt.Sprintf("its priority %d is below policy.expendablePodsPriorityCutoff %d", p.Priority, policy.ExpendablePodsPriorityCutoff)
}

// placeNow reserves capacity for the pods that fit now, whether or not the scheduler has
// marked them unschedulable. The scheduler places them.
func (w *world) placeNow() {
	for _, g := range w.queue.gangs {
		core, rest := g.core()
		if len(core) > 0 && w.pending[core[0]].undecided() {
			if _, ok := w.inDomains(g, core, w.placePodNow); ok {
				g.reason, g.detail = WaitScheduler, w.gangText(g, core)
			}
			for _, i := range core {
				w.countUnserved(i)
			}
		}
		for _, i := range rest { // those of a gang only once its core is placed
			if w.pending[i].undecided() && (w.gangUnserved(g) || !w.placePodNow(i)) {
				w.countUnserved(i)
			}
		}
	}
}

func (w *world) placePodNow(i int) bool {
	p := w.touchPending(i)
	k := p.kind
	n := w.tightest(k)
	if n < 0 {
		return p.served
	}
	w.assign(k, n)
	if !p.pod.Unschedulable || w.now.Sub(p.pod.PendingSince) < schedulerGrace {
		w.nodes[n].settle(p.pod)
	}
	p.served, p.reason, p.detail = true, WaitScheduler, "fits on "+w.nodes[n].name+k.dataText(&w.nodes[n])
	p.chosen = choice{OptionFree, w.nodes[n].name}
	return true
}

// settle records that the scheduler is about to bind a pod to the node, which delays repartitions there. A member that
// does not exist yet does not delay repartitions for its own gang: it is made only once the gang's core fits.
func (n *nodeState) settle(p *Pod) {
	gang := ""
	if p.Unmade {
		gang = p.Gang
	}
	if n.settling && n.settlingGang != gang {
		gang = ""
	}
	n.settling, n.settlingGang = true, gang
}

// assign reserves capacity of a node for a pending pod of the kind.
func (w *world) assign(k *kind, node int) {
	n := w.touch(node)
	w.models.take(k, &n.capacity)
	w.topology.place(k.pod, node, 1)
	n.promised++
	if n.pool != nil && n.pool.MIG.Repartition && len(k.pod.Demand.MIG) > 0 {
		w.reconsiderRepartitions(node)
	}
}

// reconsiderRepartitions evaluates a node's GPUs again for the kinds that
// needed no repartition while the node had free capacity for them.
func (w *world) reconsiderRepartitions(node int) {
	if len(w.repartitionable(&w.nodes[node])) == 0 {
		return
	}
	for _, k := range w.kinds {
		switch {
		case !k.repartitions.built:
		case k.unserved > 0:
			k.repartitions.push(k.heapOf(&w.nodes[node]), unevaluated(node))
		default: // few pods will use the index, and they build it
			k.repartitions.built = false
		}
	}
}

// placeRest serves pods that the scheduler cannot place, most urgent first: with marked
// those that it has marked unschedulable, without it the others. The others come last: no
// action is taken for them, so they must not use what an action provides for marked pods.
func (w *world) placeRest(marked bool) {
	w.findBorrowers()
	for _, g := range w.queue.gangs {
		w.serveMembers(g, marked)
	}
	if marked {
		w.serveFollowers()
	}
}

// serveFollowers tries pods with near rules again. A less urgent pod that they must be near may have its node by now.
func (w *world) serveFollowers() {
	for i := range w.pending {
		p := &w.pending[i]
		if len(p.pod.Near) > 0 && p.pod.Gang == "" && p.pod.Unschedulable && !p.served && !p.refused && p.reason != AllocationUnknown { // for which a GPU is reserved
			w.serve(i, false)
		}
	}
}

func (w *world) serveMembers(g *gang, marked bool) {
	core, rest := g.core()
	if len(core) > 0 && w.pending[core[0]].undecided() && w.actionable(core) == marked {
		w.serveGang(g)
		_, rest = g.core() // it may have changed
	}
	for _, i := range rest {
		p := &w.pending[i]
		if !p.undecided() || p.pod.Unschedulable != marked {
			continue
		}
		w.discountUnserved(i)
		if w.gangUnserved(g) {
			p.reason, p.detail = g.reason, g.name+" "+g.detail
			continue
		}
		w.serve(i, false)
	}
}

// gangUnserved reports a gang whose core is not served: further members are of no use.
func (q *queue) gangUnserved(g *gang) bool {
	core, _ := g.core()
	return len(core) > 0 && !q.pending[core[0]].served
}

// actionable reports whether actions may be taken for a gang: the scheduler has
// marked a member unschedulable, or a member is only created once it fits.
func (q *queue) actionable(core []int) bool {
	return slices.ContainsFunc(core, func(i int) bool { return q.pending[i].pod.Unschedulable || q.pending[i].pod.Unmade })
}
