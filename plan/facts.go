package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// facts is what is known of a card at one look. Cards are many and lie far apart
// in memory: each is read once, and everybody else reads this.
type facts struct {
	since time.Time // since when it has been free; zero for held, or not known
	free  bool      // known to have no holder
	held  int       // instances with a holder
}

// lookAtCards reads all cards: what they have to give, who holds them, what is
// unusual about them.
func (w *world) lookAtCards() {
	total := 0
	for i := range w.nodes {
		total += len(w.nodes[i].Cards)
	}
	all := make([]facts, total)
	var table *mig.Table
	model := ""
	for i := range w.nodes {
		n := &w.nodes[i]
		n.Cards = sortedCards(n.Cards)
		n.facts, all = all[:len(n.Cards):len(n.Cards)], all[len(n.Cards):]
		n.room = room{cpu: stated(n.CPUMilli), memory: stated(n.MemoryMi), others: n.Others}
		single := n.Labels[strategySingle] == "single"
		for c := range n.Cards {
			card := &n.Cards[c]
			w.supplyCard(n, card, single)
			w.meet(card.Model)
			n.facts[c] = n.lookAt(card)
			if card.MIG && card.Model.Name != model {
				model = card.Model.Name
				table, _ = w.table(model)
			}
			if n.pool >= 0 {
				n.odd.look(card, table)
			}
		}
	}
}

// lookAt reads one card and counts for its node what is held of it.
func (n *nodeState) lookAt(c *Card) facts {
	var f facts
	f.free, f.since = cardFree(c)
	n.unknown = n.unknown || !c.HoldersKnown
	if !c.MIG {
		n.plain++
		if len(c.Holders) > 0 {
			n.plainHeld++
		}
		return f
	}
	n.unknownMIG = n.unknownMIG || !c.HoldersKnown
	for i := range c.Instances {
		if c.Instances[i].Holder != "" {
			f.held++
		} else {
			n.unheld = added(n.unheld, c.Instances[i].Profile, 1)
		}
	}
	return f
}
