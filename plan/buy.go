package plan

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// lookAhead is how many further pods are asked whether they would share a new
// node, when its price is divided.
const lookAhead = 64

// buyOption finds the pool whose next node serves the pod for the least. A node
// that is on its way and that nobody uses yet stands in for one to be bought,
// even of a dearer pool; with paid, nothing else will do.
func (w *world) buyOption(i int, k *kind, p *Pod, paid bool) (option, bool) {
	var best, spare option
	found, foundSpare := false, false
	for j := range w.pools {
		ps := &w.pools[j]
		has := len(ps.spare) > 0
		if reason, _ := w.cannotBuy(k, ps); reason != "" && (!has || reason == NoPoolFits) || paid && !has {
			continue
		}
		o := w.priced(i, k, p, j)
		if !found || o.cost < best.cost {
			best, found = o, true
		}
		if has && (!foundSpare || o.cost < spare.cost) {
			spare, foundSpare = o, true
		}
	}
	if foundSpare {
		return spare, true
	}
	return best, found
}

// priced is the option of the next node of a pool that fits.
func (w *world) priced(i int, k *kind, p *Pod, pool int) option {
	ps := &w.pools[pool]
	o := option{pool: pool, node: -1, at: w.now.Add(ps.ReadyAfter)}
	if len(ps.spare) > 0 {
		o.node = ps.spare[0]
		o.at = w.nodes[o.node].at
	}
	r, wait := ps.empty.clone(), o.at.Sub(w.now)
	if w.lacks(k, &r) == "slices" {
		r, o.cuts = w.cutNew(k, ps)
		wait += ps.MIG.IdleAfter + ps.MIG.Duration
		o.cost = w.policy.DisruptionCost
	}
	o.cost += ps.price()*w.policy.NodeLife.Hours()/float64(w.sharers(i, k, ps, r)) + w.waiting(k, p.Priority, wait)
	return o
}

// cutNew says what room a new node would have once its cards are cut for the
// kind; false when none of them can be.
func (w *world) cutNew(k *kind, p *poolState) (r room, ok bool) {
	need, known := w.needOf(k, p.empty.model)
	if !p.MIG.Repartition || !known || p.empty.model == "" {
		return room{}, false
	}
	r = p.empty.clone()
	for c := range p.Template.Cards {
		boot := layoutOf(&p.Template.Cards[c])
		must, fits := lacking(need, p.empty.free, mig.Counts(boot))
		if !p.Template.Cards[c].MIG || !fits || len(must) == 0 {
			continue
		}
		a := w.target(w.poolIndex(p.Name), p.empty.model, nil, boot, must, nil)
		if !a.ok {
			continue
		}
		for _, in := range boot {
			r.free = added(r.free, in.Profile, -1)
		}
		for _, in := range a.Layout {
			r.free = added(r.free, in.Profile, 1)
		}
		ok = true
	}
	return r, ok
}

// price of one node for an hour; an unpriced one costs as if 1 per card.
func (p *poolState) price() float64 {
	if p.PricePerHour > 0 {
		return p.PricePerHour
	}
	return float64(max(1, len(p.Template.Cards)))
}

// cannotBuy says why the pool gives the kind no node, with a detail; empty when
// it can.
func (w *world) cannotBuy(k *kind, p *poolState) (Reason, string) {
	if why := w.misfit(k, p); why != "" {
		return NoPoolFits, p.Name + ": " + why
	}
	switch {
	case p.stop != "":
		return p.stop, p.Name + ": " + p.why
	case p.blind && w.lacks(k, &p.empty) == "slices":
		return HoldersUnknown, p.Name + ": a new node would have to be cut, and of those it has nobody says who holds what"
	case p.base+p.grown >= p.Max:
		return PoolAtMax, fmt.Sprintf("%s has %d of %d nodes", p.Name, p.base+p.grown, p.Max)
	case p.grown >= w.policy.MaxNodesPerScaleUp:
		return BoundReached, fmt.Sprintf("%s grows by %d a round", p.Name, p.grown)
	}
	return "", ""
}

// misfit says what of the pool's template keeps the kind out, empty for nothing.
func (w *world) misfit(k *kind, p *poolState) string {
	if !k.admitsNew(p) {
		if t, out := untolerated(k.pod, p.Template.Taints); out {
			return "taint " + t.Key + " is not tolerated"
		}
		return "labels do not match"
	}
	switch lack := w.lacks(k, &p.empty); lack {
	case "slices":
		if _, ok := w.cutNew(k, p); ok {
			return ""
		}
		return "has no such slices"
	case "":
		return ""
	default:
		return "too few " + lack
	}
}

// sharers counts the pods, this one and those after it, that one new node with
// room r would serve.
func (w *world) sharers(i int, k *kind, p *poolState, r room) int {
	w.take(k, &r)
	n, seen := 1, 0
	for j := i + 1; j < len(w.pending) && seen < lookAhead; j++ {
		q := &w.pending[j]
		if q.served || q.pod.Unreadable != "" || !q.pod.Unschedulable {
			continue
		}
		seen++
		qk := &w.kinds[q.kind]
		if qk.admitsNew(p) && w.lacks(qk, &r) == "" {
			w.take(qk, &r)
			n++
		}
	}
	return n
}

// commitBuy takes the option, with an action where the node is not on its way
// already.
func (w *world) commitBuy(p *pending, k *kind, o, cut option, canCut bool) {
	if o.node >= 0 {
		w.open(p, k, o)
		return
	}
	ps := &w.pools[o.pool]
	reason, detail := NoFreeSlice, fmt.Sprintf("%s wants %s; %.2f for a node", p.pod.Key(), k.wants, o.cost)
	switch {
	case canCut:
		reason = RepartitionExhausted
		detail += fmt.Sprintf(" against %.2f for cutting %s/%d", cut.cost, w.nodes[cut.node].name, w.nodes[cut.node].cards()[cut.cut.card].Index)
	case len(k.pod.Demand.MIG) > 0 && k.blocked.total() > 0:
		reason = RepartitionExhausted
		detail += ", no card can be cut: " + k.blocked.String()
	}
	w.grow(o.pool, 1, reason, detail)
	w.actions[ps.action].Cost += ps.price() * w.policy.NodeLife.Hours()
	w.addSpare(o.pool, o.at, ps.action)
	o.node = ps.spare[0]
	w.open(p, k, o)
}

// open gives a pod the first use of a node that is on its way.
func (w *world) open(p *pending, k *kind, o option) {
	ps := &w.pools[o.pool]
	ps.spare = ps.spare[1:]
	w.nodes[o.node].unopened = false
	for i := range w.kinds {
		other := &w.kinds[i]
		other.scan, other.cutFrom = min(other.scan, o.node), min(other.cutFrom, o.node)
	}
	if o.cuts {
		if c, ok := w.cutOn(k, p.pod, o.node, nil, &blockers{}); ok {
			w.commitCut(p, k, c, "")
			return
		}
	}
	w.commitWait(p, k, option{node: o.node})
}

// grow asks for n more nodes of a pool, in the one action the pool has in a plan.
func (w *world) grow(pool, n int, reason Reason, detail string) {
	p := &w.pools[pool]
	if p.action < 0 {
		p.action = len(w.actions)
		w.actions = append(w.actions, Action{Verb: ScaleUp, Pool: p.Name, From: p.base, Reason: reason, Detail: detail})
		w.memory.LastScaleUp = stamped(w.memory.LastScaleUp, p.Name, w.now)
	}
	p.grown += n
	w.actions[p.action].To = p.base + p.grown
}

// raiseToMin brings pools up that are smaller than their minimum.
func (w *world) raiseToMin() {
	for i := range w.pools {
		p := &w.pools[i]
		n := min(p.Min, p.Max) - p.base
		if n <= 0 || p.stop != "" || len(w.actions) >= w.policy.MaxActionsPerRound {
			continue
		}
		n = min(n, w.policy.MaxNodesPerScaleUp, maxUpcoming)
		if n <= 0 {
			continue
		}
		w.grow(i, n, BelowMin, fmt.Sprintf("%d of at least %d nodes", p.base, p.Min))
		for range n {
			w.addSpare(i, w.now.Add(p.ReadyAfter), p.action)
		}
		w.actions[p.action].Cost += float64(n) * p.price() * w.policy.NodeLife.Hours()
	}
}

// reasonRank orders the reasons why no pool gives a node by how close the pool
// was: what would have worked with a little more comes first.
var reasonRank = []Reason{BoundReached, HoldersUnknown, PoolAtMax, BackingOff, Frozen, TooManyUnready, NoPoolFits}

// unbought is the reason, of all pools, that came closest to a node.
func (w *world) unbought(k *kind) (reason Reason) {
	reason, _ = w.unboughtDetail(k)
	return reason
}

func (w *world) unboughtDetail(k *kind) (Reason, string) {
	best, detail := len(reasonRank), []string{}
	for j := range w.pools {
		reason, why := w.cannotBuy(k, &w.pools[j])
		for rank, r := range reasonRank {
			if r != reason || rank > best {
				continue
			}
			if rank < best {
				best, detail = rank, nil
			}
			detail = append(detail, strings.TrimSuffix(why, ": "))
		}
	}
	if best == len(reasonRank) {
		return NoPoolFits, "there is no pool"
	}
	return reasonRank[best], strings.Join(detail[:min(len(detail), 3)], "; ")
}

// unserved is the answer to a pod that nothing serves.
func (w *world) unserved(k *kind) (Reason, string) {
	reason, detail := w.unboughtDetail(k)
	if k.blocked.total() > 0 {
		detail += "; no card can be cut: " + k.blocked.String()
		if reason == NoPoolFits {
			reason = RepartitionExhausted
		}
	}
	return reason, detail
}

// rivalText is what an action was weighed against.
func rivalText(o option, ok bool, reason Reason) string {
	if !ok {
		return fmt.Sprintf("; no node can be had (%s)", reason)
	}
	return fmt.Sprintf(" against %.2f for a node", o.cost)
}
