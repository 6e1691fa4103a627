package demand

import "github.com/gpuscale/gpuscale/gpu/mig"

// WholeCard is the compute slices that a card without MIG counts for, so that
// demands on different products can be added up.
const WholeCard = 7

// Slices returns the compute slices that the demand takes on cards of t, or on
// cards without MIG where t is nil. A fraction counts the larger of its shares
// of compute and memory, rounded up to slices; a share of unstated size counts
// one slice, since it is not nothing.
func (d Demand) Slices(t *mig.Table) int {
	card, memory := WholeCard, 0
	if t != nil {
		card, memory = t.ComputeSlices(), t.CardMemoryMiB()
	}
	n := d.Cards * card
	for _, in := range d.MIG {
		n += in.Profile.Compute * in.Count
	}
	if f := d.Fraction; f != nil {
		part := max(1, ceil(f.CoreMilli*card, 1000), ceil(f.MemoryMilli*card, 1000))
		if memory > 0 {
			part = max(part, ceil(f.MemoryMiB*card, memory))
		}
		n += part * max(1, f.Cards)
	}
	return n
}

func ceil(a, b int) int { return (a + b - 1) / b }
