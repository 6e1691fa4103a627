package plan

import (
	"cmp"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// gpuMemorySlices is how many memory slices a quota counts for a GPU of any
// product. Slices of other geometries are scaled: on a GPU of four compute slices
// and twelve of memory, an instance of two and six counts three and four.
const gpuMemorySlices = 8

// Scale converts demands to quota amounts on the GPUs of one cluster. In every
// layout the instances of a GPU count at most the whole GPU together, so that a
// guarantee does not depend on the product or the layout.
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

// Instance is what one instance of a profile counts, on the first product of the
// cluster that has it by that name; else the least it counts on any product, and
// what its name states where no product has it.
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
	var least quota.Amount
	found := false
	for _, model := range mig.Models() {
		t, ok := mig.ForModel(model)
		if !ok {
			continue
		}
		p, ok := t.Exact(in.Name)
		if a := ofGPU(t, p); ok && (!found || a.Memory < least.Memory || a.Memory == least.Memory && a.Compute < least.Compute) {
			least, found = a, true
		}
	}
	if found {
		return least
	}
	compute := min(max(in.Profile.Compute, 0), gpuSlices)
	memory := compute
	if compute >= 3 && compute != 4 { // 3g has four memory slices, 7g eight
		memory++
	}
	return quota.Amount{Compute: int64(compute), Memory: int64(memory)}
}

// ofGPU is what an instance counts of a GPU of the table: its share, rounded down
// so that all of a GPU are no more than the GPU, and not to nothing.
func ofGPU(t *mig.Table, p mig.Profile) quota.Amount {
	part := func(n, of, whole int) int64 {
		if n <= 0 || of <= 0 {
			return 0
		}
		return int64(max(n*whole/of, 1))
	}
	return quota.Amount{
		Compute: part(p.Compute, t.ComputeSlices(), gpuSlices),
		Memory:  part(p.Memory, t.MemorySlices(), gpuMemorySlices),
	}
}

// Amount is what a demand counts. A part of a GPU that is stated in MiB is a part
// of GPUs with gpuMiB; where those are not known (0), of the smallest GPU of the
// cluster that has as much. A part of unstated size counts one slice of each.
func (s *Scale) Amount(d *demand.Demand, gpuMiB int) quota.Amount {
	gpus := int64(clampCount(d.GPUs))
	a := quota.Amount{Compute: gpus * gpuSlices, Memory: gpus * gpuMemorySlices}
	for i := range d.MIG {
		one, n := s.Instance(d.MIG[i]), int64(clampCount(d.MIG[i].Count))
		a = a.Add(quota.Amount{Compute: n * one.Compute, Memory: n * one.Memory})
	}
	if f := d.Fraction; f != nil {
		if gpuMiB <= 0 {
			gpuMiB = s.smallest(f.MemoryMiB)
		}
		part := fractionOf(f, gpuMiB) * float64(clampCount(max(f.GPUs, 1)))
		a = a.Add(quota.Amount{Compute: int64(part*gpuSlices + 0.999), Memory: int64(part*gpuMemorySlices + 0.999)})
	}
	return a
}

// smallest is the memory of the smallest GPU of the cluster that has as much.
func (s *Scale) smallest(mib int) int {
	best := 0
	for _, m := range s.models {
		if m.MemoryMiB >= mib && m.MemoryMiB > 0 && (best == 0 || m.MemoryMiB < best) {
			best = m.MemoryMiB
		}
	}
	return cmp.Or(best, referenceMemoryMiB)
}
