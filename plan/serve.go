package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// option is one way to serve a pod.
type option struct {
	kind         OptionKind
	cost         float64   // in the policy's currency, all included
	share        float64   // of a pool's node: the pod's share of it
	price, risk  float64   // parts of cost: the share of the node's price, and the expected loss by interruption
	at           time.Time // when it serves the pod; of a repartition, when it may begin
	ready        time.Time // of a repartition: when it serves the pod
	node         int       // index; negative for a node to be added
	pool         *poolState
	repartition  repartition
	then         []repartition // of further GPUs of the node, one after the other
	repartitions bool          // the GPUs of the pool's node have to be repartitioned
	unknown      bool          // the allocation of the GPU to repartition is unknown
	victims      []*Pod        // pods to evict
	balances     string        // the best pool, which the option's smaller pool replaces; empty for none
	later        string        // the bound that leaves it to a later reconcile: it is only reserved now; empty for none
}

// serving is the context in which options are weighed. The functions that serve a gang, or a pod
// that is not pending, set its fields and reset them. A trial that is reverted restores spent and
// lowest.
type serving struct {
	committing bool          // a gang is served; what a bound delays is reserved
	staging    bool          // its evictions may be left to later reconciles too, see mayStage
	stopping   []*Pod        // pods that are taken to stop anyway, see reclaimTogether
	stopOnly   bool          // no other pods may be evicted
	retried    int           // members served in trials of reclaimTogether so far
	expecting  int           // further pods like this one: of the forecast, or of the interrupted node
	rest       [][]mig.Count // by pool, what the gang's members after this one request
	spent      float64       // cost of the options taken
	lowest     int64         // lowest priority of the pools whose new or unclaimed nodes are used, see inOneDomain
}

// serve takes the cheapest option for a pod. It is false where none is taken; the pod's
// reason explains that.
func (w *world) serve(i int, inGang bool) bool {
	p := w.touchPending(i)
	if p.served || w.placePodNow(i) { // what others got may have opened a place
		return true
	}
	w.consider(p)
	wait, canWait := w.waitOption(p)
	switch {
	case w.hold != "" || !p.pod.Unschedulable && !inGang:
		return w.withoutAction(p, wait, canWait)
	case w.reopenFor(p):
		return true
	case p.kind.bounded && !canWait && !w.serving.committing:
		p.reason, p.detail = BoundReached, w.policy.actionBound()
		return false
	}
	all := w.options(p)
	if canWait {
		all = append([]option{wait}, all...)
	}
	best, ok := cheapest(all)
	if !ok {
		p.reason, p.detail = w.unserved(p)
		return false
	}
	return w.commit(p, best, all)
}

// waitsFor is the upcoming node that a pod would use, -1 where there is none or an action costs less.
func (w *world) waitsFor(p *pending) int {
	wait, ok := w.waitOption(p)
	if !ok {
		return -1
	}
	if best, ok := cheapest(w.options(p)); ok && best.cost < wait.cost && w.hold == "" {
		return -1
	}
	return wait.node
}

// options are the ways to serve a pod by an action, each kind once: those that
// change less come first.
func (w *world) options(p *pending) []option {
	var all []option
	repartition, canRepartition := w.repartitionOption(p)
	if canRepartition {
		all = append(all, repartition)
	}
	if back, ok := w.reclaimOption(p); ok {
		all = append(all, back)
	}
	node, ok := w.scaleUpOption(p, false)
	if canRepartition && repartition.unknown && node.repartitions && node.node < 0 {
		ok = false // the existing GPU may turn out free, and a new node would be no better known
	}
	if ok && w.policy.mayScaleUp(p) {
		all = append(all, node)
	}
	return all
}

// cheapest is the first of the options that cost the least, false for none.
func cheapest(all []option) (option, bool) {
	if len(all) == 0 {
		return option{}, false
	}
	return slices.MinFunc(all, func(a, b option) int { return cmp.Compare(a.cost, b.cost) }), true
}

// optionOf is the option of a kind, if there is one.
func optionOf(all []option, kind OptionKind) (option, bool) {
	if i := slices.IndexFunc(all, func(o option) bool { return o.kind == kind }); i >= 0 {
		return all[i], true
	}
	return option{}, false
}

// commit takes one of the options. It is false where a bound of the policy delays the option.
// For a gang's members such an option is reserved, so that a gang larger than a bound is served
// over several reconciles.
func (w *world) commit(p *pending, o option, all []option) bool {
	if o.later = w.delays(o); o.later != "" && (!w.serving.committing || w.policy.MaxActionsPerReconcile <= 0) {
		p.kind.bounded = p.kind.bounded || o.kind == OptionRepartition
		p.reason, p.detail = BoundReached, w.policy.actionBound()
		return false
	}
	w.serving.spent += o.cost
	if o.kind == OptionNode {
		p.chosen = choice{o.kind, o.pool.Name}
	} else {
		p.chosen = choice{o.kind, w.nodes[o.node].name}
	}
	switch o.kind {
	case OptionWait:
		w.commitWait(p, o)
	case OptionRepartition:
		w.commitRepartition(p, o, w.alternativeText(p, all))
	case OptionReclaim:
		w.commitReclaim(p, o, w.alternativeText(p, all))
	case OptionNode:
		w.commitScaleUp(p, o, all)
	}
	return p.served
}

// delays is the bound that delays an option to a later reconcile, empty for
// none.
func (w *world) delays(o option) string {
	switch {
	case o.kind == OptionRepartition && w.actions.full() && !o.at.After(w.now):
		return w.policy.actionBound()
	case o.kind == OptionNode && o.node < 0:
		ps := o.pool
		if why := w.nodeBound(ps); why != "" {
			return why
		}
		if w.actions.full() && ps.action < 0 {
			return w.policy.actionBound()
		}
	}
	return ""
}

// nodeBound is the bound that delays one more node of a pool, empty for none.
func (cond *conditions) nodeBound(p *poolState) string {
	switch {
	case p.grown >= cond.policy.MaxNodesPerScaleUp:
		return fmt.Sprintf("%s grows by %d nodes in this reconcile already", p.Name, p.grown)
	case cond.state.GrownLately(p.Name, cond.now) >= cond.policy.MaxNodesPerHour:
		return fmt.Sprintf("%s grew by %d nodes within the hour", p.Name, cond.state.GrownLately(p.Name, cond.now))
	}
	return ""
}

func (policy *Policy) actionBound() string {
	return "at most " + count(policy.MaxActionsPerReconcile, "action") + " a reconcile"
}

// mayScaleUp reports whether nodes are added for the pod. A pod for which none is added may not
// use an unclaimed upcoming node either.
func (policy *Policy) mayScaleUp(p *pending) bool {
	return !p.borrowed || p.shared || policy.ScaleUpBorrowed
}

// withoutAction decides about a pod for which no action may be taken now.
func (w *world) withoutAction(p *pending, wait option, canWait bool) bool {
	if canWait {
		return w.commit(p, wait, nil)
	}
	if spare, ok := w.scaleUpOption(p, true); ok && w.policy.mayScaleUp(p) {
		return w.commit(p, spare, nil)
	}
	if p.reason = w.hold; p.reason == "" {
		p.reason, p.detail = WaitScheduler, "the scheduler has not answered yet"
	}
	return false
}

func (w *world) waitOption(p *pending) (option, bool) {
	n := w.soonest(p.kind)
	if n >= 0 && w.nodes[n].unused() {
		n = w.requestedFor(p, n)
	}
	if n < 0 {
		return option{}, false
	}
	at := w.nodes[n].at
	return option{kind: OptionWait, cost: w.policy.waitCost(p.kind, p.pod.Priority, at.Sub(w.now)), at: at, node: n}, true
}

// unused reports a registered node that is not ready yet, and that no pod is to use so far.
func (n *nodeState) unused() bool {
	return !n.virtual && n.pool != nil && n.tier == tierNode && n.bound+n.promised == 0
}

// requestedFor chooses the registered node that a pod waits for, of those that no pod is to use so far. It takes a
// node of the best pool for the pod, by the order in which scaleUpOption would add a node. Where no pool has such a
// node, it returns first, the node that is ready first. Without this rule the oldest pod would take the first node
// that registers, perhaps a large one, and a further large node would be requested for the pod that needs it.
//
// It returns -1 where the pod's own node has not registered yet, and the pods that need the registered node would not
// fit beside this pod.
func (w *world) requestedFor(p *pending, first int) int {
	var best option
	for _, ps := range w.pools {
		for _, n := range ps.registered {
			if _, fits := w.value(p.kind, n, true); fits && w.nodes[n].unused() && w.topology.rulesAllow(p.kind, &w.nodes[n]) {
				if o := w.priced(p, ps, n); best.pool == nil || p.kind.before(o, best) {
					best = o
				}
				break
			}
		}
	}
	if best.pool == nil {
		return first
	}
	spare, ok := w.scaleUpOption(p, true)
	if !ok || !p.kind.before(spare, best) || !w.policy.mayScaleUp(p) {
		return best.node
	}
	left := w.nodes[best.node].capacity.clone()
	w.models.take(p.kind, &left)
	for _, k := range w.kinds {
		if k.unserved == 0 {
			continue
		}
		if _, fits := w.value(k, best.node, true); !fits || w.misfit(k, spare.pool) == "" {
			continue
		}
		for range k.unserved {
			if w.models.lacks(k, &left) != "" {
				return -1
			}
			w.models.take(k, &left)
		}
	}
	return best.node // the pods that need it fit beside this one; the spare node may be for pods that are not pending yet
}

func (w *world) commitWait(p *pending, o option) {
	n := &w.nodes[o.node]
	w.assign(p.kind, o.node)
	p.served = n.since != AllocationUnknown // otherwise it may turn out not to be free
	p.reason, p.detail = n.promise(w.now)
	if n.tier == tierNode && !n.virtual && n.pool != nil { // one that another controller makes may have no object
		p.upcoming = n.Node
	}
	if n.action >= 0 {
		w.actions.doneFor(n.action, p)
	}
}

// promise is the reason of a pod that will use the node.
func (n *nodeState) promise(now time.Time) (Reason, string) {
	in := short(n.at.Sub(now))
	switch {
	case n.later != "":
		return BoundReached, fmt.Sprintf("%s: reserved on %s, and done in a later reconcile", n.later, n.name)
	case n.since == NodeUpcoming:
		return WaitUpcomingNode, n.name + ", " + n.dueText("in ", now)
	case n.since == CoolingDown:
		return CoolingDown, fmt.Sprintf("a GPU of %s can be repartitioned in %s", n.name, in)
	case n.since == AllocationUnknown:
		return AllocationUnknown, fmt.Sprintf("a GPU of %s can be repartitioned once it is known to be free", n.name)
	case n.since == RepartitionDone:
		return WaitRepartition, n.name + " is being uncordoned"
	case n.since == PodLeaving:
		return WaitReclaim, fmt.Sprintf("on %s when pods have left, in about %s", n.name, in)
	}
	return WaitRepartition, "on " + n.name + ", " + n.dueText("in ", now)
}

// dueText is the time until the node's capacity is supply, "in 5m"; where that is over, "due now" or "due 7m ago".
func (n *nodeState) dueText(in string, now time.Time) string {
	switch late := now.Sub(n.due); {
	case n.at.Sub(now) >= time.Second/2:
		return in + short(n.at.Sub(now))
	case n.due.IsZero() || late < time.Second/2:
		return "due now"
	default:
		return "due " + short(late) + " ago"
	}
}

// maxNominations bounds the pods that one plan nominates.
const maxNominations = 100

// nominations nominates pods for the registered nodes that they wait for, the largest pods first, where unschedulable
// pods are of more than one kind. Otherwise the scheduler binds each pod to the first node that becomes ready: small
// pods take the large nodes that were requested for large pods, and stay there when their own nodes are ready.
func (w *world) nominations() []Nomination {
	var waiting []*pending
	var kinds []*kind
	for i := range w.pending {
		p := &w.pending[i]
		if len(kinds) < 2 && p.pod.Unschedulable && !slices.Contains(kinds, p.kind) {
			kinds = append(kinds, p.kind)
		}
		if p.upcoming != nil && p.pod.Unschedulable && !p.pod.Unmade {
			waiting = append(waiting, p)
		}
	}
	if len(kinds) < 2 || w.hold != "" {
		return nil
	}
	slices.SortStableFunc(waiting, func(a, b *pending) int { return cmp.Compare(slicesOf(b.pod), slicesOf(a.pod)) })
	var out []Nomination
	for _, p := range waiting[:min(len(waiting), maxNominations)] {
		out = append(out, Nomination{p.pod.Key(), p.upcoming.Name})
	}
	return out
}
