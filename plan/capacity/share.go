package capacity

import (
	"strconv"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// CardShares is how many shares a card has, in compute and in memory. Cards are
// cut into 4 or 7 compute slices and 4, 8 or 12 memory slices, and shared by a
// few pods: 840 is the smallest number that all of those divide (and 1 … 8), so
// that parts of different products add up without rounding.
const CardShares = 840

// wholeMemory is the memory slices that a card without MIG counts for, as
// demand.WholeCard is its compute slices.
const wholeMemory = 8

// Size is an amount of card, in shares (1/840 of a card) of its compute and of
// its memory. They run out separately.
type Size struct{ Compute, Memory int }

var wholeCard = Size{CardShares, CardShares}

func (a Size) plus(b Size) Size  { return Size{a.Compute + b.Compute, a.Memory + b.Memory} }
func (a Size) minus(b Size) Size { return Size{a.Compute - b.Compute, a.Memory - b.Memory} }

func (a Size) zero() bool { return a == Size{} }

// Cards is the compute in card equivalents.
func (a Size) Cards() float64 { return float64(a.Compute) / CardShares }

// slicesPerCard returns what a card of the model is cut into; one without MIG
// counts as seven and eight.
func slicesPerCard(model string) (compute, memory int) {
	if t, ok := mig.ForModel(model); ok {
		return t.ComputeSlices(), t.MemorySlices()
	}
	return demand.WholeCard, wholeMemory
}

// sizeOf returns the size of an instance of p on cards of t.
func sizeOf(t *mig.Table, p mig.Profile) Size {
	return Size{p.Compute * CardShares / t.ComputeSlices(), p.Memory * CardShares / t.MemorySlices()}
}

// slices prints a size in compute and memory slices of the model: "3/4".
func (a Size) slices(model string) string {
	compute, memory := slicesPerCard(model)
	return inSlices(a.Compute, compute) + "/" + inSlices(a.Memory, memory)
}

// inSlices prints shares in slices; only parts of shared cards are no whole ones.
func inSlices(shares, slices int) string {
	if shares*slices%CardShares == 0 {
		return strconv.Itoa(shares * slices / CardShares)
	}
	return strconv.FormatFloat(float64(shares)*float64(slices)/CardShares, 'f', 1, 64)
}
