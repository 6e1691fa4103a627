package observe

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// doubtUnattributed marks the cards that could be held by a pod which is bound
// to the node but which the exporter has not yet said to hold all it asked for.
func doubtUnattributed(in nodeInput, cards []plan.Card) {
	if in.reading == nil {
		return
	}
	key := make([]byte, 0, 128) // of the pod: each is looked up each round
	for _, p := range in.bound {
		key = append(append(append(key[:0], p.Namespace...), '/'), p.Name...)
		held := in.reading.held[string(key)]
		unread := p.Unreadable != "" && held == 0 // it may hold anything
		if !unread && (p.Demand.Zero() || held >= devices(p.Demand)) {
			continue
		}
		for i := range cards {
			if unread || couldHold(&cards[i], p.Demand, in.tables) {
				cards[i].HoldersKnown = false
			}
		}
	}
}

// devices is how many cards and instances a demand is served with.
func devices(d demand.Demand) int {
	n := d.Cards
	for _, i := range d.MIG {
		n += i.Count
	}
	if d.Fraction != nil {
		n = max(n, 1)
	}
	return n
}

// couldHold reports whether a card has something free that the demand could be
// on. Whole cards may be MIG devices under the single strategy.
func couldHold(c *plan.Card, d demand.Demand, tables mig.Tables) bool {
	if d.Cards > 0 || d.Fraction != nil {
		return !c.MIG || slices.ContainsFunc(c.Instances, func(i plan.Instance) bool { return i.Holder == "" })
	}
	if !c.MIG {
		return false
	}
	table, ok := tables.ForModel(c.Model.Name)
	if !ok {
		return true
	}
	for _, want := range d.MIG {
		profile, ok := table.Exact(want.Name)
		if !ok {
			continue
		}
		if slices.ContainsFunc(c.Instances, func(i plan.Instance) bool { return i.Holder == "" && i.Profile == profile }) {
			return true
		}
	}
	return false
}

// trackIdle sets since when a card or its instances have been free.
func (o *Observer) trackIdle(in nodeInput, c *plan.Card) {
	if !c.HoldersKnown {
		return
	}
	card := idleKey{node: in.node.Name, card: c.UUID, index: c.Index}
	held := len(c.Holders) > 0
	for i := range c.Instances {
		inst := &c.Instances[i]
		key := card
		key.isInstance, key.instance, key.place = true, inst.UUID, inst.Placement
		if inst.Holder != "" {
			held = true
			o.idle.held(key)
			continue
		}
		inst.IdleSince = o.idle.free(key, in.now)
	}
	if held {
		o.idle.held(card)
		return
	}
	c.IdleSince = o.idle.free(card, in.now)
}
