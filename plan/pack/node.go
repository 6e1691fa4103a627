package pack

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Whole is a card nobody has taken anything of, in thousandths.
const Whole = 1000

// Part is a share of one card in thousandths of its cores and of its memory.
// Core percent and memory of the fractional dialects both become thousandths
// before they come here; who does not limit one of the two asks 0 of it.
type Part struct {
	Core, Memory int
}

// holds reports whether p has room for q, by cores and by memory.
func (p Part) holds(q Part) bool { return p.Core >= q.Core && p.Memory >= q.Memory }

// Ask is what one pod needs of one node. The zero Ask needs nothing.
type Ask struct {
	CPU    int // thousandths of a core
	Memory int // MiB of the node's memory
	// Cards is how many whole, untouched cards are asked for, 0 for none. With
	// Part or Profile set it is 1.
	Cards int
	// Part of one card that is shared in fractions.
	Part Part
	// Profile of one instance of a MIG card.
	Profile mig.Profile
	// Models are the kinds of node that will do, one bit each; 0 for any.
	Models uint64
}

// whole reports whether a asks for untouched cards.
func (a Ask) whole() bool { return a.Cards > 0 && a.Part == (Part{}) && a.Profile == (mig.Profile{}) }

// Compare orders asks, in no order that means anything.
func (a Ask) Compare(b Ask) int {
	return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Cards, b.Cards),
		cmp.Compare(a.Part.Core, b.Part.Core), cmp.Compare(a.Part.Memory, b.Part.Memory),
		a.Profile.Compare(b.Profile), cmp.Compare(a.Models, b.Models))
}

// Card is what is free of one card: a Part of it, or, on a node with Cuts, what
// the instances of state Cut leave.
type Card struct {
	Part
	Cut int
}

// Node is what is free on a node.
type Node struct {
	Model  int    // bit of Ask.Models, 0 … 63
	CPU    int    // thousandths of a core
	Memory int    // MiB
	Cards  []Card // ascending
	// Cuts are the states of the node's cards where they are MIG cards. All
	// nodes of a Model have the same.
	Cuts *Cuts
}

// NewNode returns an empty node with so many cards; cuts is nil for cards that
// are used whole or in fractions.
func NewNode(model, cpu, memory, cards int, cuts *Cuts) Node {
	n := Node{Model: model, CPU: cpu, Memory: memory, Cards: make([]Card, cards), Cuts: cuts}
	if cuts == nil {
		for i := range n.Cards {
			n.Cards[i].Part = Part{Whole, Whole}
		}
	}
	return n
}

// free is what c has left, in thousandths of its cores.
func (n Node) free(c Card) int {
	if n.Cuts != nil {
		return n.Cuts.thousandths(n.Cuts.states[c.Cut].compute)
	}
	return c.Core
}

func (n Node) untouched(c Card) bool {
	if n.Cuts != nil {
		return c.Cut == 0
	}
	return c.Core >= Whole && c.Memory >= Whole
}

// Free is what n's cards have left altogether, in thousandths of a card's cores.
func (n Node) Free() int {
	sum := 0
	for _, c := range n.Cards {
		sum += n.free(c)
	}
	return sum
}

// Size is what a would take of n's cards, in thousandths of a card's cores: an
// instance is as much as its compute slices.
func (n Node) Size(a Ask) int {
	switch {
	case a.whole():
		return a.Cards * Whole
	case a.Profile == (mig.Profile{}):
		return a.Part.Core
	case n.Cuts == nil:
		return 0
	default:
		return n.Cuts.thousandths(a.Profile.Compute)
	}
}

// Fits reports whether a fits n now.
func (n Node) Fits(a Ask) bool {
	if a.Models != 0 && a.Models>>n.Model&1 == 0 || a.CPU > n.CPU || a.Memory > n.Memory {
		return false
	}
	room := 0
	for _, c := range n.Cards {
		if n.onCard(a, c) {
			room++
		}
	}
	return room >= a.Cards
}

// onCard reports whether c will do for a, as one of the cards it needs.
func (n Node) onCard(a Ask, c Card) bool {
	switch {
	case a.Cards == 0:
		return false
	case a.whole():
		return n.untouched(c)
	case a.Profile != (mig.Profile{}):
		return n.Cuts != nil && len(n.Cuts.Steps(c.Cut, a.Profile)) > 0
	default:
		return n.Cuts == nil && c.holds(a.Part)
	}
}

// Spot is where on a node an Ask goes. For whole cards, which are all alike,
// and for asks without cards it says nothing.
type Spot struct {
	Card  int // index into Node.Cards
	Start int // of an instance: its first memory slice
}

// Spots returns the places on n that differ for a: one for each kind of card
// and each start. a must fit.
func (n Node) Spots(a Ask) []Spot {
	if a.Cards == 0 || a.whole() {
		return []Spot{{}}
	}
	var spots []Spot
	for i, c := range n.Cards {
		if i > 0 && c == n.Cards[i-1] || !n.onCard(a, c) {
			continue
		}
		if n.Cuts == nil {
			spots = append(spots, Spot{Card: i})
			continue
		}
		for _, s := range n.Cuts.Steps(c.Cut, a.Profile) {
			spots = append(spots, Spot{Card: i, Start: s.Start})
		}
	}
	return spots
}

// anySpot draws a card that will do, and a start on it.
func (n Node) anySpot(a Ask, draw func(n int) int) Spot {
	if a.Cards == 0 || a.whole() {
		return Spot{}
	}
	var cards []int
	for i, c := range n.Cards {
		if n.onCard(a, c) {
			cards = append(cards, i)
		}
	}
	s := Spot{Card: cards[draw(len(cards))]}
	if n.Cuts != nil {
		steps := n.Cuts.Steps(n.Cards[s.Card].Cut, a.Profile)
		s.Start = steps[draw(len(steps))].Start
	}
	return s
}

// Take returns n after a was placed at s, which must be one of n.Spots(a).
func (n Node) Take(a Ask, s Spot) Node {
	n.CPU -= a.CPU
	n.Memory -= a.Memory
	if a.Cards == 0 {
		return n
	}
	n.Cards = slices.Clone(n.Cards)
	if a.whole() {
		left := a.Cards
		for i, c := range n.Cards {
			if left > 0 && n.untouched(c) {
				n.Cards[i] = n.used()
				left--
			}
		}
	} else {
		n.Cards[s.Card] = n.after(n.Cards[s.Card], a, s.Start)
	}
	slices.SortFunc(n.Cards, Card.compare)
	return n
}

// used is a card that somebody has for himself.
func (n Node) used() Card {
	if n.Cuts != nil {
		return Card{Cut: n.Cuts.full}
	}
	return Card{}
}

// after is card c with a's part or instance on it.
func (n Node) after(c Card, a Ask, start int) Card {
	if n.Cuts == nil {
		return Card{Part: Part{c.Core - a.Part.Core, c.Memory - a.Part.Memory}}
	}
	for _, s := range n.Cuts.Steps(c.Cut, a.Profile) {
		if s.Start == start {
			return Card{Cut: s.To}
		}
	}
	return c
}

func (c Card) compare(d Card) int {
	return cmp.Or(cmp.Compare(c.Core, d.Core), cmp.Compare(c.Memory, d.Memory), cmp.Compare(c.Cut, d.Cut))
}

// key is equal for nodes that are equal.
func (n Node) key() string {
	b := make([]byte, 0, 64)
	b = binary.AppendUvarint(b, uint64(n.Model))
	b = binary.AppendVarint(b, int64(n.CPU))
	b = binary.AppendVarint(b, int64(n.Memory))
	for _, c := range n.Cards {
		b = binary.AppendVarint(b, int64(c.Core))
		b = binary.AppendVarint(b, int64(c.Memory))
		b = binary.AppendVarint(b, int64(c.Cut))
	}
	return string(b)
}
