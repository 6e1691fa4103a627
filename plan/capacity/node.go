package capacity

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// node takes the cards of a node apart. A node of a pool that shows no cards yet
// has those of its pool's template: it exists, and somebody pays for it.
func (b *builder) node(n *plan.Node) []Card {
	pool := b.pools[n.Pool]
	source, state := n.Cards, b.nodeState(n)
	if len(source) == 0 && pool != nil {
		source = pool.Template.Cards
		if state != Booting {
			state = Unready
		}
	}
	source = slices.Clone(source)
	slices.SortStableFunc(source, func(x, y plan.Card) int { return cmp.Compare(x.Index, y.Index) })
	cards := make([]Card, len(source))
	for i := range source {
		c := &cards[i]
		*c = Card{Node: n.Name, Pool: n.Pool, Model: source[i].Model.Name, Index: source[i].Index, Health: source[i].Health,
			memoryMiB: source[i].Model.MemoryMiB}
		if pool != nil && len(n.Cards) == 0 {
			c.Index = i // a template's cards need not be numbered
		}
		if pool != nil && pool.PricePerHour > 0 && pool.PricePerHour <= maxPrice {
			c.PricePerHour = pool.PricePerHour / float64(len(source))
		}
		c.State = cardState(n, &source[i], state)
		b.takeApart(c, &source[i])
	}
	b.judgeFree(n, cards)
	return cards
}

// nodeState is Free for a node in service.
func (b *builder) nodeState(n *plan.Node) State {
	young := false
	if pool := b.pools[n.Pool]; pool != nil {
		within := max(b.rules.BootWithin, 3*min(pool.ReadyAfter, 1000*time.Hour))
		young = b.now.Sub(n.Created) < within
	}
	switch {
	case young && (!n.Ready || len(n.Cards) == 0):
		return Booting
	case !n.Ready:
		return Unready
	case n.Drain != nil, n.Cordoned && n.CordonedBy == "":
		return Cordoned
	case n.CordonedBy != "":
		return Cutting // the whole node waits for one card
	}
	return Free
}

// cardState is that of the node, unless the card has a worse one of its own.
func cardState(n *plan.Node, c *plan.Card, node State) State {
	state := node
	switch {
	case c.Health == gpu.Sick:
		return Sick
	case node == Booting || node == Unready:
	case !c.HoldersKnown || !legible(c):
		return Unknown
	case n.Operation != nil && n.Operation.Card == c.Index:
		return Cutting
	}
	return state
}
