package demand

import (
	"cmp"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Demand is what one pod wants from accelerators. The zero Demand wants none.
type Demand struct {
	// Cards is the number of whole cards (or, on a node whose cards are all
	// equally partitioned under the single strategy, of equal MIG devices).
	Cards int
	// Vendor of whole cards and fractions: "nvidia", "amd", "intel", "huawei".
	Vendor string
	// MIG is the number of instances by profile, sorted by profile.
	MIG []Instances
	// Fraction of one card, nil for none.
	Fraction *Fraction
}

// Instances is a number of MIG instances of one profile, as asked for. Name is
// the profile's name in the request ("3g.40gb"); which slices it means depends
// on the product, so Profile holds what the name says by itself: compute slices
// and attributes, with Memory 0, and MemoryGB as named.
type Instances struct {
	Name     string
	Profile  mig.Profile
	MemoryGB int
	Count    int
}

func (i Instances) compare(j Instances) int {
	return cmp.Or(i.Profile.Compare(j.Profile), cmp.Compare(i.MemoryGB, j.MemoryGB))
}

// Fraction of a card. One with nothing stated is a place on a shared card, of
// whatever size the node gives it.
type Fraction struct {
	CoreMilli   int // thousandths of a card's compute, 0 for not stated
	MemoryMiB   int // 0 for not stated
	MemoryMilli int // thousandths of a card's memory, 0 for not stated
	// Cards is how many different cards such a part is wanted of; 0 is 1. HAMi asks
	// for several, and containers whose parts do not fit one card together.
	Cards int
}

// Zero reports whether nothing is wanted.
func (d Demand) Zero() bool { return d.Cards == 0 && len(d.MIG) == 0 && d.Fraction == nil }
