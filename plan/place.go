package plan

import (
	"fmt"
	"time"
)

// believeScheduler is how long a pod that should fit may be on its way to a node
// before the node's cards are no longer kept still for it: what it wants stays
// reserved, but the scheduler seems to know better.
const believeScheduler = 2 * time.Minute

// placeNow leaves to the scheduler what it can place by itself, whether or not
// it has said so yet.
func (w *world) placeNow() {
	for i := range w.pending {
		p := &w.pending[i]
		k := &w.kinds[p.kind]
		if p.pod.Unreadable != "" {
			p.reason, p.detail = DemandUnreadable, p.pod.Unreadable
			continue
		}
		if p.pod.Demand.Zero() {
			p.served, p.reason, p.detail = true, WaitScheduler, "asks for no accelerator"
			continue
		}
		n := -1
		if !k.noneNow {
			n = w.tightest(k, tierNow)
		}
		if n < 0 {
			k.noneNow = true
			if p.pod.Unschedulable {
				k.waiting++
			}
			continue
		}
		w.give(k, n)
		if !p.pod.Unschedulable || w.now.Sub(p.pod.PendingSince) < believeScheduler {
			w.nodes[n].settling = true
		}
		p.served, p.reason, p.detail = true, WaitScheduler, "fits on "+w.nodes[n].name
	}
}

// tightest returns the node of the tier that would have the least left, the
// first by name among equals, -1 for none.
func (w *world) tightest(k *kind, t tier) int {
	best, left := -1, 0
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.tier != t || !w.admits(k, n) || w.lacks(k, &n.room) != "" {
			continue
		}
		if l := n.left(); best < 0 || l < left {
			best, left = i, l
		}
	}
	return best
}

// give commits a node's room to a pending pod of the kind.
func (w *world) give(k *kind, node int) {
	n := &w.nodes[node]
	w.take(k, &n.room)
	n.promised++
}

// soonest returns the node on its way that would serve the kind first, the
// tightest among equals; -1 for none.
func (w *world) soonest(k *kind) int {
	best, left := -1, 0
	first := true
	for i := k.scan; i < len(w.nodes); i++ {
		n := &w.nodes[i]
		if n.unopened || n.tier != tierChange && n.tier != tierNode || !w.admits(k, n) || w.lacks(k, &n.room) != "" {
			if first {
				k.scan = i + 1
			}
			continue
		}
		first = false
		l := n.left()
		if best < 0 || n.at.Before(w.nodes[best].at) || n.at.Equal(w.nodes[best].at) && l < left {
			best, left = i, l
		}
	}
	return best
}

// placeRest serves what the scheduler cannot place, most urgent first: each pod
// by the cheapest of waiting for what is on its way, cutting a card, and buying
// a node. Pods the scheduler has not answered for come last: nothing is done for
// them, so they must not take what is done for others.
func (w *world) placeRest() {
	for _, marked := range []bool{true, false} {
		for i := range w.pending {
			p := &w.pending[i]
			if p.served || p.pod.Unreadable != "" || p.pod.Unschedulable != marked {
				continue
			}
			k := &w.kinds[p.kind]
			if marked {
				k.waiting--
			}
			w.serve(i, p, k)
		}
	}
}

func (w *world) serve(i int, p *pending, k *kind) {
	wait, canWait := w.waitOption(k, p.pod)
	if w.hold != "" || !p.pod.Unschedulable {
		w.withoutAction(i, p, k, wait, canWait)
		return
	}
	if k.bounded && !canWait {
		w.bounded(p)
		return
	}
	cut, canCut := w.cutOption(k, p.pod, canWait)
	buy, canBuy := w.buyOption(i, k, p.pod, false)
	if canCut && cut.unknown && buy.cuts && buy.node < 0 {
		canBuy = false // what is there may do, and a new node would be no better known
	}
	full := len(w.actions) >= w.policy.MaxActionsPerRound
	cutNow := canCut && !cut.at.After(w.now)
	switch {
	case canWait && (!canCut || wait.cost <= cut.cost) && (!canBuy || wait.cost <= buy.cost):
		w.commitWait(p, k, wait)
	case canCut && (!canBuy || cut.cost <= buy.cost):
		if full && cutNow {
			k.bounded = true
			w.bounded(p)
			return
		}
		w.commitCut(p, k, cut, rivalText(buy, canBuy, w.unbought(k)))
	case canBuy:
		if full && buy.node < 0 && w.pools[buy.pool].action < 0 {
			w.bounded(p)
			return
		}
		w.commitBuy(p, k, buy, cut, canCut)
	default:
		p.reason, p.detail = w.unserved(k)
	}
}

func (w *world) bounded(p *pending) {
	p.reason = BoundReached
	p.detail = fmt.Sprintf("%d actions a round", w.policy.MaxActionsPerRound)
}

// withoutAction answers a pod for which nothing may be done now.
func (w *world) withoutAction(i int, p *pending, k *kind, wait option, canWait bool) {
	spare, canOpen := w.buyOption(i, k, p.pod, true)
	switch {
	case canWait:
		w.commitWait(p, k, wait)
	case canOpen:
		w.open(p, k, spare)
	case w.hold != "":
		p.reason = w.hold
	default:
		p.reason, p.detail = WaitScheduler, "the scheduler has not answered yet"
	}
}

// option is one way to serve a pod.
type option struct {
	cost float64
	at   time.Time
	node int
	pool int
	cut  cut
	cuts bool // the node to buy has to be cut
	// unknown: who holds the card to cut is not known yet.
	unknown bool
}

func (w *world) waitOption(k *kind, p *Pod) (option, bool) {
	n := w.soonest(k)
	if n < 0 {
		return option{}, false
	}
	at := w.nodes[n].at
	return option{cost: w.waiting(k, p.Priority, at.Sub(w.now)), at: at, node: n}, true
}

func (w *world) commitWait(p *pending, k *kind, o option) {
	n := &w.nodes[o.node]
	w.give(k, o.node)
	p.served = true
	p.reason, p.detail = n.promise(w.now)
	if n.action >= 0 {
		a := &w.actions[n.action]
		a.For = append(a.For, p.pod.Key())
	}
}

// promise is the answer to a pod that will use the node.
func (n *nodeState) promise(now time.Time) (Reason, string) {
	in := short(n.at.Sub(now))
	switch n.since {
	case NodeUpcoming:
		return WaitUpcomingNode, fmt.Sprintf("%s, in %s", n.name, in)
	case CoolingDown:
		return CoolingDown, fmt.Sprintf("a card of %s can be cut soon, in %s", n.name, in)
	case HoldersUnknown:
		return HoldersUnknown, fmt.Sprintf("a card of %s can be cut once it is known that nothing holds it", n.name)
	case RepartitionDone:
		return WaitRepartition, n.name + " is being released"
	default:
		return WaitRepartition, fmt.Sprintf("on %s, in %s", n.name, in)
	}
}
