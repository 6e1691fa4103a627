package plan

import "fmt"

// softTaints asks the scheduler to leave empty nodes empty: a node that is to be
// removed once it has been empty for IdleAfter gets a soft taint (PreferNoSchedule),
// and loses it when it is used, needed or no longer to be removed. kube-scheduler
// spreads pods over nodes by default (LeastAllocated), so the next pod would go to the
// empty node and keep it. A soft taint refuses no pod.
func (w *world) softTaints() {
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || n.action >= 0 || n.tier != tierNow || !w.may(n.pool) {
			continue
		}
		p := &w.pools[n.pool]
		reason, since := w.emptiness(n)
		if w.keepsEmpty(p) {
			reason = w.keepsPool(p)
		}
		want := w.policy.SoftTaints && reason == NodeEmpty
		a := Action{Verb: SoftTaint, Pool: n.Pool, Node: n.name, Reason: reason}
		switch {
		case want && !n.SoftTainted:
			a.Detail = fmt.Sprintf("empty for %s, idleAfter is %s", short(w.now.Sub(since)), short(p.IdleAfter))
		case !want && n.SoftTainted:
			a.Verb, a.Detail = RemoveSoftTaint, "the node may be used"
		default:
			continue
		}
		w.addAction(a)
	}
}
