package demand

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// WholeCardMemory is the memory slices that a card without MIG counts for.
const WholeCardMemory = 8

// Amount returns what the demand counts towards a quota, in compute and memory
// slices, on cards of model m. The table is the model's, nil for one without MIG: a
// card is all slices of its table, or seven and eight without one. Of a fraction
// each side is rounded up to slices; a side that is not stated counts as much of the
// card as the other, and a share of unstated size one slice of each. The error says
// what of the demand such cards cannot have, or what is not known of them.
//
// However a card is cut, its instances together count at most the whole card: so a
// guarantee in slices survives any repartition.
func (d Demand) Amount(m gpu.Model, t *mig.Table) (quota.Amount, error) {
	card := quota.Amount{Compute: WholeCard, Memory: WholeCardMemory}
	if t != nil {
		card = quota.Amount{Compute: int64(t.ComputeSlices()), Memory: int64(t.MemorySlices())}
	}
	all := times(card, d.Cards)
	for _, in := range d.MIG {
		if t == nil {
			return quota.Amount{}, fmt.Errorf("%s: %s has no MIG", in.Name, modelText(m))
		}
		p, ok := t.Exact(in.Name)
		if !ok {
			return quota.Amount{}, fmt.Errorf("%s: no profile of %s", in.Name, t.Model())
		}
		all = all.Add(times(quota.Amount{Compute: int64(p.Compute), Memory: int64(p.Memory)}, in.Count))
	}
	if d.Fraction != nil {
		memory := m.MemoryMiB
		if t != nil && t.CardMemoryMiB() > 0 {
			memory = t.CardMemoryMiB()
		}
		part, err := d.Fraction.amount(card, memory)
		if err != nil {
			return quota.Amount{}, fmt.Errorf("%s: %s: %w", d.Fraction, modelText(m), err)
		}
		all = all.Add(times(part, max(1, d.Fraction.Cards)))
	}
	return all, nil
}

// amount is one part of a card that has so many MiB, 0 for not known.
func (f Fraction) amount(card quota.Amount, cardMiB int) (quota.Amount, error) {
	compute, memory := int64(f.CoreMilli), int64(f.MemoryMilli) // thousandths, as exact as they go
	of := int64(1000)
	if f.MemoryMiB > 0 {
		switch {
		case cardMiB <= 0:
			return quota.Amount{}, fmt.Errorf("how much memory the card has is not known")
		case f.MemoryMiB > cardMiB:
			return quota.Amount{}, fmt.Errorf("the card has %d MiB", cardMiB)
		}
		compute, of = compute*int64(cardMiB), of*int64(cardMiB)
		memory = max(memory*int64(cardMiB), int64(f.MemoryMiB)*1000)
	}
	if compute == 0 {
		compute = memory
	}
	if memory == 0 {
		memory = compute
	}
	return quota.Amount{
		Compute: max(1, (compute*card.Compute+of-1)/of),
		Memory:  max(1, (memory*card.Memory+of-1)/of),
	}, nil
}

func times(a quota.Amount, n int) quota.Amount {
	return quota.Amount{Compute: a.Compute * int64(n), Memory: a.Memory * int64(n)}
}

func modelText(m gpu.Model) string {
	if !m.Known() {
		return "a card nobody told us about"
	}
	return m.Name
}
