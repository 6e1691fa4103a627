package demand

import (
	"cmp"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Demand is what one pod requests of accelerators; the zero Demand is none.
type Demand struct {
	// GPUs is the number of whole GPUs (or, on a node whose GPUs are all
	// equally partitioned under the single strategy, of equal MIG devices).
	GPUs int
	// Vendor of whole GPUs and fractions: "nvidia", "amd", "intel", "huawei", "google".
	Vendor string
	// MIG is the number of instances by profile, sorted by profile.
	MIG []Instances
	// Fraction of one GPU, nil for none.
	Fraction *Fraction
}

// Instances is a number of MIG instances of one profile, as requested. Name is
// the profile's name in the request ("3g.40gb"). Its memory slices depend on the
// product, so Profile has only what the name states, compute slices and attributes;
// Profile.Memory is 0, and MemoryGB is the memory in the name.
type Instances struct {
	Name     string
	Profile  mig.Profile
	MemoryGB int
	Count    int
}

func (i Instances) compare(j Instances) int {
	return cmp.Or(i.Profile.Compare(j.Profile), cmp.Compare(i.MemoryGB, j.MemoryGB))
}

// Fraction is a part of a GPU. With no size stated it is shares of GPUs (time-slicing,
// MPS), whose size the node decides.
type Fraction struct {
	CoreMilli   int // thousandths of a GPU's compute, 0 for not stated
	MemoryMiB   int // 0 for not stated
	MemoryMilli int // thousandths of a GPU's memory, 0 for not stated
	// GPUs is how many different GPUs such a part is requested of; 0 means 1. It is more
	// than 1 for HAMi, and for containers whose parts do not fit one GPU together.
	// With no size stated it is the number of shares, which may be of one GPU.
	GPUs int
}

// Shares reports whether the fraction is a number of shares: no size is stated.
func (f *Fraction) Shares() bool {
	return f != nil && f.CoreMilli == 0 && f.MemoryMiB == 0 && f.MemoryMilli == 0
}

// Zero reports whether nothing is requested.
func (d Demand) Zero() bool { return d.GPUs == 0 && len(d.MIG) == 0 && d.Fraction == nil }
