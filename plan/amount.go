package plan

import (
	"cmp"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// Scale converts demands to quota amounts on the GPUs of one cluster. Other geometries are
// scaled: on a GPU of four compute and twelve memory slices, an instance of two and six counts
// as three and four. In every layout the instances of a GPU count at most the whole GPU
// together, so that a guarantee does not depend on the product or the layout.
type Scale struct {
	tables mig.Tables
	models []gpu.Model // by name
	known  map[string]quota.Amount
}

// NewScale takes the models of the cluster's GPUs, in any order, and the tables
// that nodes have published of them.
func NewScale(tables mig.Tables, models []gpu.Model) *Scale {
	own := slices.Clone(models)
	slices.SortFunc(own, func(a, b gpu.Model) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.MemoryMiB, b.MemoryMiB))
	})
	return &Scale{tables: tables, models: slices.Compact(own), known: map[string]quota.Amount{}}
}

// Instance is the amount of one instance of a profile: on the first product of
// the cluster that has a profile of this name; else the slices that its name states.
func (s *Scale) Instance(in demand.Instances) quota.Amount {
	if a, ok := s.known[in.Name]; ok {
		return a
	}
	a := s.instance(in)
	s.known[in.Name] = a
	return a
}

func (s *Scale) instance(in demand.Instances) quota.Amount {
	for _, m := range s.models {
		if t, ok := s.tables.ForModel(m.Name); ok {
			if p, ok := t.Exact(in.Name); ok {
				return ofGPU(t, p)
			}
		}
	}
	compute := min(max(in.Profile.Compute, 0), gpuSlices)
	memory := compute
	if compute >= 3 && compute != 4 { // 3g has four memory slices, 7g eight
		memory++
	}
	return quota.Amount{Compute: int64(compute), Memory: int64(memory)}
}

// ofGPU is the share of a GPU that an instance takes: rounded down, so that all
// instances of a GPU count at most the whole GPU, but never to zero.
func ofGPU(t *mig.Table, p mig.Profile) quota.Amount {
	part := func(n, of, whole int) int64 {
		if n <= 0 || of <= 0 {
			return 0
		}
		return int64(max(n*whole/of, 1))
	}
	return quota.Amount{
		Compute: part(p.Compute, t.ComputeSlices(), gpuSlices),
		Memory:  part(p.Memory, t.MemorySlices(), quota.MemorySlices),
	}
}

// Amount is the amount of a demand. A part stated in MiB is measured against a
// GPU of gpuMiB; where that is unknown (0), against the smallest GPU of the
// cluster that has enough memory. A part of unstated size counts as one slice
// of each.
func (s *Scale) Amount(d *demand.Demand, gpuMiB int) quota.Amount {
	gpus := int64(clampCount(d.GPUs))
	a := quota.Amount{Compute: gpus * gpuSlices, Memory: gpus * quota.MemorySlices}
	for i := range d.MIG {
		one, n := s.Instance(d.MIG[i]), int64(clampCount(d.MIG[i].Count))
		a = a.Add(quota.Amount{Compute: n * one.Compute, Memory: n * one.Memory})
	}
	if f := d.Fraction; f != nil {
		if gpuMiB <= 0 {
			gpuMiB = s.smallest(f.MemoryMiB)
		}
		part := fractionOf(f, gpuMiB) * float64(clampCount(max(f.GPUs, 1)))
		a = a.Add(quota.Amount{Compute: int64(part*gpuSlices + 0.999), Memory: int64(part*quota.MemorySlices + 0.999)})
	}
	return a
}

// smallest is the memory of the smallest GPU of the cluster that has at least
// mib.
func (s *Scale) smallest(mib int) int {
	best := 0
	for _, m := range s.models {
		if m.MemoryMiB >= mib && m.MemoryMiB > 0 && (best == 0 || m.MemoryMiB < best) {
			best = m.MemoryMiB
		}
	}
	return cmp.Or(best, referenceMemoryMiB)
}

// GPUs is a demand in GPUs: the larger of its compute and its memory. A part of unstated
// size counts as one slice.
func (s *Scale) GPUs(d demand.Demand) float64 {
	f := d.Fraction
	d.Fraction = nil
	a := s.Amount(&d, 0)
	gpus := max(float64(a.Compute)/gpuSlices, float64(a.Memory)/quota.MemorySlices)
	switch {
	case f.Shares():
		gpus += float64(clampCount(max(f.GPUs, 1))) / gpuSlices
	case f != nil:
		gpus += fractionOf(f, s.smallest(f.MemoryMiB)) * float64(clampCount(max(f.GPUs, 1)))
	}
	return gpus
}
