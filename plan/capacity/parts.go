package capacity

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// legible reports whether what is said of a GPU can be true: a MIG GPU has a
// table, and its instances a place on it together.
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

// layoutOf returns a GPU's instances; placed is false where it is not known for
// all of them where they lie.
func layoutOf(c *plan.GPU) (l mig.Layout, placed bool) {
	placed, l = true, make(mig.Layout, 0, len(c.Instances))
	for i := range c.Instances {
		l = append(l, c.Instances[i].Placement)
		placed = placed && c.Instances[i].Placed
	}
	return mig.NewLayout(l...), placed
}

// takeApart fills in the parts of a GPU.
func (b *builder) takeApart(c *GPU, source *plan.GPU) {
	switch {
	case c.State == Unknown, !legible(source) || !source.AllocationKnown:
		// Whoever holds it, nothing can be said of its parts.
		c.Parts = []Part{{State: c.State, Size: wholeGPU}}
	case source.MIG:
		b.instances(c, source)
	default:
		b.sharers(c, source)
	}
}

// instances makes a part of every instance, and of what they leave.
func (b *builder) instances(c *GPU, source *plan.GPU) {
	t, _ := mig.ForModel(c.Model)
	rest := wholeGPU
	layout, placed := layoutOf(source)
	c.Parts = make([]Part, 0, len(source.Instances)+2) // and what they leave
	for i := range source.Instances {
		in := &source.Instances[i]
		p := Part{State: c.State, Size: sizeOf(t, in.Profile), Profile: in.Profile}
		if in.AllocatedTo != "" {
			b.hold(&p, c.State, in.AllocatedTo, in.Busy)
		}
		c.Parts = append(c.Parts, p)
		rest = rest.minus(p.Size)
	}
	slices.SortStableFunc(c.Parts, func(p, q Part) int { return q.Profile.Compare(p.Profile) })
	if c.State != Free {
		c.addRest(c.State, NoCause, rest)
		return
	}
	uncut := b.fits.extension(t, layout, placed)
	c.addRest(Fragmented, Uncut, uncut)
	c.addRest(Fragmented, Odd, rest.minus(uncut))
}

func (c *GPU) addRest(s State, cause Cause, size Size) {
	if !size.zero() {
		c.Parts = append(c.Parts, Part{State: s, Cause: cause, Size: size})
	}
}

// sharers makes a part of every pod's share of a GPU without MIG. Pods that ask
// for stated fractions hold those; any others hold equal shares of the GPU.
func (b *builder) sharers(c *GPU, source *plan.GPU) {
	allocatedTo := slices.Clone(source.AllocatedTo)
	slices.Sort(allocatedTo)
	sizes, ok := b.fractions(allocatedTo, source.Model.MemoryMiB)
	rest := wholeGPU
	for i, holder := range allocatedTo {
		p := Part{State: c.State}
		if ok {
			p.Size = sizes[i]
		} else {
			p.Size = equalShare(i, len(allocatedTo))
		}
		b.hold(&p, c.State, holder, source.Busy)
		c.Parts = append(c.Parts, p)
		rest = rest.minus(p.Size)
	}
	c.addRest(c.State, NoCause, rest)
}

// fractions returns what each holder asked for; false unless all asked for
// fractions of stated size that fit one GPU together.
func (b *builder) fractions(allocatedTo []string, gpuMiB int) ([]Size, bool) {
	sizes := make([]Size, len(allocatedTo))
	var sum Size
	for i, holder := range allocatedTo {
		pod := b.pods[holder]
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

// fractionSize is a pod's fraction of a GPU. Of what is not stated it takes as
// much as of what is. It is false where nothing is stated, or more than a GPU.
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

// shares rounds up, so that a small part is not nothing; more than a GPU is one
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

// hold makes a part one that a pod holds. Where the GPU itself is out of
// service it stays out of it, and the holder is the one who suffers.
func (b *builder) hold(p *Part, device State, holder string, busy sample.Value) {
	p.State, p.Holder = Held, holder
	if device == Sick || device == Unready || device == Booting {
		p.State = device
	}
	p.Busy = busy.Fresh(b.rules.MaxBusyAge)
	if pod := b.pods[holder]; pod != nil {
		p.Tenant = pod.Tenant
	}
}
