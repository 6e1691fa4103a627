package capacity

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// legible reports whether the data about a GPU can be true: a MIG GPU has a
// table, and its instances are a legal layout.
func legible(c *plan.GPU) bool {
	if !c.MIG {
		return len(c.Instances) == 0
	}
	t, ok := mig.ForModel(c.Model.Name)
	if !ok || len(c.AllocatedTo) > 0 {
		return false
	}
	l, placed := layoutOf(c)
	if !placed {
		_, ok = t.Arrange(nil, mig.Counts(l))
		return ok
	}
	return t.Legal(l) == nil
}

// layoutOf returns a GPU's instances; placed is false where a placement is
// unknown.
func layoutOf(c *plan.GPU) (l mig.Layout, placed bool) {
	placed, l = true, make(mig.Layout, 0, len(c.Instances))
	for i := range c.Instances {
		l = append(l, c.Instances[i].Placement)
		placed = placed && c.Instances[i].Placed
	}
	return mig.NewLayout(l...), placed
}

// split fills in the parts of a GPU.
func (b *builder) split(c *GPU, source *plan.GPU) {
	switch {
	case c.State == Unknown, !legible(source) || !source.AllocationKnown:
		// Without known allocations the GPU has no known parts.
		c.Parts = []Part{{State: c.State, Size: wholeGPU}}
	case source.MIG:
		b.instances(c, source)
	default:
		b.sharers(c, source)
	}
}

// instances makes a part of every instance, and of the slices in none.
func (b *builder) instances(c *GPU, source *plan.GPU) {
	t, _ := mig.ForModel(c.Model)
	rest := wholeGPU
	layout, placed := layoutOf(source)
	c.Parts = make([]Part, 0, len(source.Instances)+2) // and the rest
	for i := range source.Instances {
		in := &source.Instances[i]
		p := Part{State: c.State, Size: sizeOf(t, in.Profile), Profile: in.Profile}
		if in.AllocatedTo != "" {
			b.allocate(&p, c.State, in.AllocatedTo, in.Busy)
		}
		c.Parts = append(c.Parts, p)
		rest = rest.minus(p.Size)
	}
	slices.SortStableFunc(c.Parts, func(p, q Part) int { return q.Profile.Compare(p.Profile) })
	if c.State != Free {
		c.addRest(c.State, NoCause, rest)
		return
	}
	unpartitioned := b.fits.extension(t, layout, placed)
	c.addRest(Fragmented, Unpartitioned, unpartitioned)
	c.addRest(Fragmented, Odd, rest.minus(unpartitioned))
}

func (c *GPU) addRest(s State, cause Cause, size Size) {
	if !size.zero() {
		c.Parts = append(c.Parts, Part{State: s, Cause: cause, Size: size})
	}
}

// sharers makes a part of every pod's share of a GPU without MIG: the stated
// fractions where all pods request such, else equal shares.
func (b *builder) sharers(c *GPU, source *plan.GPU) {
	allocatedTo := slices.Clone(source.AllocatedTo)
	slices.Sort(allocatedTo)
	sizes, ok := b.fractions(allocatedTo, source.Model.MemoryMiB)
	rest := wholeGPU
	for i, pod := range allocatedTo {
		p := Part{State: c.State}
		if ok {
			p.Size = sizes[i]
		} else {
			p.Size = equalShare(i, len(allocatedTo))
		}
		b.allocate(&p, c.State, pod, source.Busy)
		c.Parts = append(c.Parts, p)
		rest = rest.minus(p.Size)
	}
	c.addRest(c.State, NoCause, rest)
}

// fractions returns the size that each pod requests; false unless all request
// fractions of stated size that fit one GPU together.
func (b *builder) fractions(allocatedTo []string, gpuMiB int) ([]Size, bool) {
	sizes := make([]Size, len(allocatedTo))
	var sum Size
	for i, pod := range allocatedTo {
		pod := b.pods[pod]
		if pod == nil || pod.Demand.Fraction == nil {
			return nil, false
		}
		var ok bool
		if sizes[i], ok = fractionSize(pod, gpuMiB); !ok {
			return nil, false
		}
		sum = sum.plus(sizes[i])
	}
	return sizes, len(allocatedTo) > 0 && sum.Compute <= GPUShares && sum.Memory <= GPUShares
}

// fractionSize is a pod's fraction of a GPU. An unstated one of compute and
// memory equals the other. It is false where none is stated, or more than a
// GPU.
func fractionSize(p *plan.Pod, gpuMiB int) (Size, bool) {
	f := p.Demand.Fraction
	s := Size{Compute: shares(f.CoreMilli, 1000), Memory: shares(f.MemoryMilli, 1000)}
	if gpuMiB > 0 {
		s.Memory = max(s.Memory, shares(f.MemoryMiB, gpuMiB))
	}
	if s.Compute == 0 {
		s.Compute = s.Memory
	}
	if s.Memory == 0 {
		s.Memory = s.Compute
	}
	return s, s.Compute > 0 && s.Compute <= GPUShares && s.Memory <= GPUShares
}

// shares rounds up, so that a small part is not zero; more than a GPU is one
// share more than a GPU.
func shares(part, of int) int {
	switch {
	case part <= 0:
		return 0
	case part > of:
		return GPUShares + 1
	}
	return int((int64(part)*GPUShares + int64(of) - 1) / int64(of))
}

// equalShare is the i-th of n shares that add up to a GPU.
func equalShare(i, n int) Size {
	size := (i+1)*GPUShares/n - i*GPUShares/n
	return Size{size, size}
}

// allocate makes a part Allocated to a pod. On a GPU out of service the part
// keeps the GPU's state.
func (b *builder) allocate(p *Part, device State, pod string, busy sample.Value) {
	p.State, p.AllocatedTo = Allocated, pod
	if device == Sick || device == Unready || device == Booting {
		p.State = device
	}
	p.Busy = busy.Fresh(b.rules.MaxBusyAge)
	if pod := b.pods[pod]; pod != nil {
		p.Tenant = pod.Tenant
	}
}
