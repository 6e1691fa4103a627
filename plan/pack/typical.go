package pack

import (
	"cmp"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Typical is the demand to be expected: shapes of asks and how often each
// comes. The shares sum to 1.
type Typical []Share

// Share is one shape and its part of all asks.
type Share struct {
	Ask   Ask
	Share float64
}

// NewTypical counts asks and keeps the most frequent shapes that together make
// up at least cover of them, 0 … 1, ties in a fixed order. No asks give no
// shapes.
func NewTypical(asks []Ask, cover float64) Typical {
	counts := map[Ask]int{}
	for _, a := range asks {
		counts[a]++
	}
	t := make(Typical, 0, len(counts))
	for a, n := range counts {
		t = append(t, Share{a, float64(n)})
	}
	slices.SortFunc(t, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Share, a.Share), a.Ask.Compare(b.Ask)) })
	kept := 0.0
	for i, s := range t {
		if kept >= cover*float64(len(asks)) {
			t = t[:i]
			break
		}
		kept += s.Share
	}
	for i := range t {
		t[i].Share /= kept
	}
	return t
}

// Fragmentation is how much of n's free GPUs the typical ask cannot use, in
// thousandths of a GPU: all of them where it does not fit n, and where it does
// what it would leave of each GPU (Weng et al., "Beware of Fragmentation", ATC
// 2023). A GPU shared in fractions is usable to an ask it has room for; a MIG
// GPU is usable as far as instances of the profile fill it. An ask for no GPU
// uses none.
func (t Typical) Fragmentation(n Node) float64 {
	free := n.Free()
	if free == 0 {
		return 0
	}
	sum := 0.0
	for _, s := range t {
		lost := free
		if s.Ask.GPUs > 0 && n.Fits(s.Ask) {
			lost -= n.usable(s.Ask)
		}
		sum += s.Share * float64(lost)
	}
	return sum
}

// usable is what of n's GPUs asks like a could use, by GPUs alone.
func (n Node) usable(a Ask) int {
	sum := 0
	for _, c := range n.GPUs {
		switch {
		case !n.onGPU(a, c):
		case a.Profile != (mig.Profile{}):
			sum += n.Repartitions.thousandths(n.Repartitions.Most(c.Cut, a.Profile) * a.Profile.Compute)
		default:
			sum += n.free(c)
		}
	}
	return sum
}
