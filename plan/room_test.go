package plan

import (
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"pgregory.net/rapid"
)

// TestPartsOfCards gives parts of cards to pods and counts along, card by card: a
// pod fits when as many cards as it wants have its part left beside the whole
// ones it wants, and what it takes is gone from as many cards, never more than
// they had. MiB of cards of unknown size fit nowhere.
func TestPartsOfCards(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const memory = 1000
		var free room
		free.whole = rapid.IntRange(-1, 4).Draw(r, "cards")
		free.vendor = "nvidia"
		if rapid.Bool().Draw(r, "memory known") {
			free.cardMiB = memory
		}
		for range rapid.IntRange(1, 12).Draw(r, "pods") {
			f := &demand.Fraction{CoreMilli: rapid.IntRange(0, 1100).Draw(r, "core"), MemoryMiB: rapid.IntRange(0, 1100).Draw(r, "memory"),
				MemoryMilli: rapid.SampledFrom([]int{0, 1, 250, 1000, 1001}).Draw(r, "share"), Cards: rapid.IntRange(0, 3).Draw(r, "of cards")}
			p := &Pod{Demand: demand.Demand{Vendor: "nvidia", Cards: rapid.IntRange(0, 2).Draw(r, "whole"), Fraction: f}}
			need := free.partOf(f)
			before, shared := cardsOf(&free), len(free.parts)
			fit := 0
			for _, c := range before {
				if c.core >= need.core && c.memory >= need.memory {
					fit++
				}
			}
			// Whole cards it takes besides are no cards for its parts.
			untouched := max(free.whole, 0)
			fits := need.core <= 1000 && need.memory <= free.partMemory() && (f.MemoryMiB == 0 || free.cardMiB > 0) &&
				fit-min(p.Demand.Cards, untouched) >= max(f.Cards, 1) && p.Demand.Cards <= untouched
			if got := free.hasParts(p) && p.Demand.Cards <= untouched; got != fits {
				r.Fatalf("%+v in %+v: fits %v, counted %v", *f, free, got, fits)
			}
			if !fits {
				continue
			}
			was := slices.Clone(free.parts)
			free.takePlain(p)
			checkTaken(r, &free, before, need, p)
			for i, c := range free.parts[:shared] {
				if twice := (part{was[i].core - c.core, was[i].memory - c.memory}); twice != (part{}) && twice != need {
					r.Fatalf("%+v taken of one card for parts of %+v", twice, need)
				}
			}
		}
	})
}

// cardsOf lists what is left of every card.
func cardsOf(r *room) []part {
	var all []part
	for range r.whole {
		all = append(all, part{1000, r.partMemory()})
	}
	return append(all, r.parts...)
}

func checkTaken(r *rapid.T, left *room, before []part, need part, p *Pod) {
	cards := max(p.Demand.Fraction.Cards, 1)
	var core, memory int
	for _, c := range before {
		core, memory = core+c.core, memory+c.memory
	}
	after := cardsOf(left)
	for _, c := range after {
		core, memory = core-c.core, memory-c.memory
		if c.core < 0 || c.memory < 0 {
			r.Fatalf("a card has less than nothing left: %+v", *left)
		}
	}
	whole := p.Demand.Cards
	if len(before)-len(after) != whole || core != cards*need.core+1000*whole || memory != cards*need.memory+left.partMemory()*whole {
		r.Fatalf("took %d cards, %d thousandths, %d MiB for %d × %+v and %d whole", len(before)-len(after), core, memory, cards, need, whole)
	}
}
