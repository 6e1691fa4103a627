package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// cut is a card's new layout.
type cut struct {
	card   int // position on the node
	before mig.Layout
	keep   mig.Layout
	answer pack.Answer
}

// cutOption finds the card whose cutting serves the pod for the least: now, or
// when its slices have been idle and its node rested for long enough.
func (w *world) cutOption(k *kind, p *Pod, canWait bool) (option, bool) {
	if k.cutFrom >= len(w.nodes) || len(p.Demand.MIG) == 0 {
		return option{}, false
	}
	best, found := option{}, false
	var blocked blockers
	wants := w.furtherWants()
	for i := k.cutFrom; i < len(w.nodes); i++ {
		if o, ok := w.cutOn(k, p, i, wants, &blocked); ok && (!found || o.cheaper(best)) {
			best, found = o, true
		}
	}
	// A pod that something on its way serves anyhow says nothing of the next one.
	if !found && !canWait {
		k.cutFrom = len(w.nodes)
		k.blocked.join(blocked)
	}
	return best, found
}

// cutOn finds the best card of one node.
func (w *world) cutOn(k *kind, p *Pod, node int, wants [][]mig.Count, blocked *blockers) (option, bool) {
	best, found := option{}, false
	n := &w.nodes[node]
	if n.unopened || n.pool < 0 || !w.pools[n.pool].MIG.Repartition || !w.admits(k, n) {
		return best, false
	}
	need, ok := w.needOf(k, n.model)
	if !ok || n.model == "" {
		return best, false
	}
	if wants == nil {
		wants = w.furtherWants()
	}
	for c := range n.cards() {
		o, why := w.cutCard(k, p, node, c, need, wants[n.pool])
		if why > blockNone {
			blocked.add(why, n.name, n.cards()[c].Index)
		}
		if why == blockNone && (!found || o.cheaper(best)) {
			best, found = o, true
		}
	}
	return best, found
}

// cheaper prefers, among equals, the card of which more stays.
func (o option) cheaper(than option) bool {
	return o.cost < than.cost || o.cost == than.cost && o.cut.answer.Kept > than.cut.answer.Kept
}

// cards are those the node has, or will have.
func (n *nodeState) cards() []Card {
	if n.expected != nil {
		return n.expected
	}
	return n.Cards
}

// aMoment is when the next round can look again at a node that is being released
// or that the scheduler is about to fill: no reason to buy another.
const aMoment = time.Second

// notCut stands for a card that never comes into question: no MIG, another model.
const notCut blocker = -1

// cutCard looks at one card. Where busy instances can stay, those that are not
// idle for long enough may stay as well; if they stand in the way, the cut waits
// for them.
func (w *world) cutCard(k *kind, p *Pod, node, card int, need, want []mig.Count) (option, blocker) {
	n := &w.nodes[node]
	if n.tier != tierNode && w.pools[n.pool].MIG.KeepsBusy {
		if o, why := w.cutWith(k, p, node, card, need, want, false); why != blockLayout {
			return o, why
		}
	}
	return w.cutWith(k, p, node, card, need, want, true)
}

// cutWith looks at one card; patient says to wait for what is not idle for long
// enough rather than to leave it in place.
func (w *world) cutWith(k *kind, p *Pod, node, card int, need, want []mig.Count, patient bool) (option, blocker) {
	n := &w.nodes[node]
	c := &n.cards()[card]
	pool := &w.pools[n.pool]
	if !c.MIG || c.Model.Name != n.model {
		return option{}, notCut
	}
	if why := w.nodeBlocks(k, n); why != blockNone {
		return option{}, why
	}
	o := option{node: node, cut: cut{card: card}, at: n.changeAt}
	if n.settling {
		o.at = later(o.at, w.now.Add(aMoment))
	}
	s := w.splitCard(n, card, patient)
	if s.why != blockNone {
		return option{}, s.why
	}
	o.cut.before, o.cut.keep, o.unknown = s.before, s.keep, s.unknown
	o.at = later(o.at, s.at)
	must, ok := lacking(need, n.free, s.gone)
	if !ok {
		return option{}, blockPromised
	}
	if len(must) == 0 {
		return option{}, blockRoom
	}
	a := w.target(n.pool, c.Model.Name, s.keep, s.spare, must, want)
	if !a.ok {
		return option{}, blockLayout
	}
	o.cut.answer = a.Answer
	o.cost = w.policy.DisruptionCost + w.waiting(k, p.Priority, o.at.Sub(w.now)+pool.MIG.Duration)
	return o, blockNone
}

// nodeBlocks says what about the node as a whole stands against cutting a card.
func (w *world) nodeBlocks(k *kind, n *nodeState) blocker {
	switch {
	case w.pools[n.pool].Freeze:
		return blockFrozen
	case n.tier == tierOut, n.operating() && w.failed(n.Operation):
		return blockBusyNode
	case k.pod.CPUMilli > n.cpu || k.pod.MemoryMi > n.memory || k.pod.Demand.Cards > n.whole:
		return blockRoom
	}
	return blockNone
}

// furtherWants adds up, for each pool, what further pending pods could use
// there.
func (w *world) furtherWants() [][]mig.Count {
	out := make([][]mig.Count, len(w.pools))
	for i := range w.pools {
		p := &w.pools[i]
		if !p.MIG.Repartition {
			continue
		}
		for j := range w.kinds {
			other := &w.kinds[j]
			if other.waiting <= 0 || len(other.pod.Demand.MIG) == 0 || !other.admitsNew(p) {
				continue
			}
			need, _ := w.needOf(other, p.empty.model)
			for _, c := range need {
				out[i] = added(out[i], c.Profile, c.N*min(other.waiting, cardSlices))
			}
		}
	}
	return out
}

// target asks pack for the best layout, once for each different question.
func (w *world) target(pool int, model string, keep, spare mig.Layout, must, want []mig.Count) answer {
	key := question(pool, model, keep, spare, must, want)
	if a, ok := w.answers[key]; ok {
		return a
	}
	t, ok := mig.ForModel(model)
	a := answer{}
	if ok {
		rules := &w.pools[pool].MIG
		a.Answer, a.ok = pack.Target(pack.Question{Table: t, Keep: keep, Spare: spare, Must: must, Want: want,
			Allowed: rules.Allowed, Grow: !rules.KeepsBusy})
	}
	w.answers[key] = a
	return a
}

// question is a key for the answers: cheap, since every card asks.
func question(pool int, model string, keep, spare mig.Layout, must, want []mig.Count) string {
	b := make([]byte, 0, 128)
	b = append(b, byte(pool), byte(pool>>8), byte(pool>>16))
	b = append(b, model...)
	for _, l := range []mig.Layout{keep, spare} {
		b = append(b, '|')
		for _, p := range l {
			b = append(b, byte(p.Profile.Compute), byte(p.Profile.Memory), byte(p.Profile.Attrs), byte(p.Start))
		}
	}
	for _, cs := range [][]mig.Count{must, want} {
		b = append(b, '|')
		for _, c := range cs {
			n := min(c.N, 255)
			b = append(b, byte(c.Profile.Compute), byte(c.Profile.Memory), byte(c.Profile.Attrs), byte(n))
		}
	}
	return string(b)
}

// commitCut takes the option: an action when it can be done now, a promise when
// later.
func (w *world) commitCut(p *pending, k *kind, o option, rival string) {
	n := &w.nodes[o.node]
	pool := &w.pools[n.pool]
	card := &n.cards()[o.cut.card]
	n.cut[o.cut.card], n.splits = true, nil
	detail := fmt.Sprintf("%s wants %s; %.2f%s", p.pod.Key(), k.wants, o.cost, rival)
	switch {
	case n.tier == tierNode: // when it has come
	case !o.at.After(w.now):
		n.action = len(w.actions)
		w.actions = append(w.actions, w.cutAction(n, card, o, detail))
		w.memory.LastRepartition = stamped(w.memory.LastRepartition, n.name, w.now)
		n.tier, n.since = tierChange, WaitRepartition
	default:
		n.tier, n.action, n.since = tierChange, -1, CoolingDown
		if o.unknown {
			n.since = HoldersUnknown
		}
	}
	for _, s := range o.cut.before {
		if !slices.Contains(o.cut.keep, s) {
			n.free = added(n.free, s.Profile, -1)
		}
	}
	for _, s := range o.cut.answer.Layout {
		if !slices.Contains(o.cut.keep, s) {
			n.free = added(n.free, s.Profile, 1)
		}
	}
	n.at = later(n.at, o.at.Add(pool.MIG.Duration))
	n.changeAt = later(o.at.Add(w.policy.RepartitionCooldown), n.at)
	for i := range w.kinds {
		w.kinds[i].scan = 0
	}
	w.commitWait(p, k, option{node: o.node})
	switch n.since {
	case HoldersUnknown:
		p.served = false // who knows
		p.detail = fmt.Sprintf("%s/%d can be cut once it is known that nothing holds it", n.name, card.Index)
	case CoolingDown:
		p.detail = fmt.Sprintf("%s/%d can be cut in %s; %.2f%s", n.name, card.Index, short(o.at.Sub(w.now)), o.cost, rival)
	}
}

func (w *world) cutAction(n *nodeState, card *Card, o option, detail string) Action {
	steps, err := mig.Diff(o.cut.before, o.cut.answer.Layout, func(p mig.Placement) bool { return slices.Contains(o.cut.keep, p) })
	if err != nil { // the target was searched among layouts that contain what stays
		steps = nil
	}
	return Action{Verb: Repartition, Pool: n.Pool, Node: n.name, Card: card.Index, Model: card.Model.Name,
		Before: o.cut.before, Target: o.cut.answer.Layout, Steps: steps,
		Operation: fmt.Sprintf("%s-%d-%d", n.name, card.Index, w.now.Unix()),
		Deadline:  w.now.Add(w.policy.RepartitionTimeout), Reason: NoFreeSlice, Detail: detail, Cost: o.cost}
}
