package pack

import (
	"cmp"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Typical is the expected demand: shapes of requests and the share of each. The
// shares sum to 1.
type Typical []Share

// Share is one shape and its share of all requests.
type Share struct {
	Ask   Request
	Share float64
}

// NewTypical counts requests and keeps the most frequent shapes that together
// are at least cover of them, 0 … 1, ties in a fixed order. No requests give no
// shapes.
func NewTypical(requests []Request, cover float64) Typical {
	counts := map[Request]int{}
	for _, a := range requests {
		counts[a]++
	}
	t := make(Typical, 0, len(counts))
	for a, n := range counts {
		t = append(t, Share{a, float64(n)})
	}
	slices.SortFunc(t, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Share, a.Share), a.Ask.Compare(b.Ask)) })
	kept := 0.0
	for i, s := range t {
		if kept >= cover*float64(len(requests)) {
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

// Fragmentation is how much of n's free GPUs the typical request cannot use, in
// thousandths of a GPU: all of them where it does not fit n, and where it does
// what it would leave of each GPU (Weng et al., "Beware of Fragmentation", ATC
// 2023). A GPU shared in fractions is usable to a request that fits it; a MIG
// GPU as far as instances of the profile fill it. A request for no GPU uses
// none.
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

// usable is what requests like a could use of n's GPUs, by GPUs alone.
func (n Node) usable(a Request) int {
	sum := 0
	for _, c := range n.GPUs {
		switch {
		case !n.onGPU(a, c):
		case a.Profile != (mig.Profile{}):
			sum += n.Geometry.thousandths(n.Geometry.Most(c.State, a.Profile) * a.Profile.Compute)
		default:
			sum += n.free(c)
		}
	}
	return sum
}
