package plan

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/demand"
)

// part is the free capacity of a shared GPU, in thousandths and MiB.
type part struct {
	core, memory int
	places       int  // further pods that may use it
	gpu          int  // its index plus one, 0 for unknown
	shared       bool // it is given in parts only
}

// hasParts reports whether a pod's fraction finds as many different GPUs as it requests: shared
// ones, or whole ones that are left beside the pod's own whole GPUs.
func (r *capacity) hasParts(p *Pod) bool {
	need := r.partOf(p.Demand.Fraction)
	if need.core > 1000 || need.memory > r.partMemory() || !sameVendor(p.Demand.Vendor, r.vendor) || r.undivided || r.unmeasured(p) {
		return false
	}
	freeSlices := clampCount(max(p.Demand.Fraction.GPUs, 1)) - max(r.whole-clampCount(p.Demand.GPUs), 0)
	for _, s := range r.parts {
		if freeSlices <= 0 {
			break
		}
		if s.holds(need) {
			freeSlices--
		}
	}
	return freeSlices <= 0
}

// holds reports whether a part fits into what is left.
func (s part) holds(need part) bool {
	return s.core >= need.core && s.memory >= need.memory && s.places > 0
}

// unused is the free capacity of a whole GPU.
func (r *capacity) unused(gpu int) part {
	places := r.gpuPlaces
	if places <= 0 {
		places = math.MaxInt32
	}
	return part{core: 1000, memory: r.partMemory(), places: places, gpu: gpu}
}

// unmeasured reports a request in MiB of GPUs of unknown memory: such GPUs
// would never be full.
func (r *capacity) unmeasured(p *Pod) bool {
	return p.Demand.Fraction != nil && p.Demand.Fraction.MemoryMiB > 0 && r.gpuMiB <= 0
}

// partOf is a fraction in a GPU's thousandths and MiB. A share of its memory is rounded
// down, as HAMi does: two halves of an odd number of MiB are one GPU.
func (r *capacity) partOf(f *demand.Fraction) part {
	share := int64(r.partMemory()) * int64(max(min(f.MemoryMilli, 1000), 0))
	return part{core: max(f.CoreMilli, 0), memory: max(f.MemoryMiB, 0, int(share/1000))}
}

// partMemory is a GPU's memory in MiB. Where it is unknown it is a number large
// enough for all that runs.
func (r *capacity) partMemory() int {
	if r.gpuMiB > 0 {
		return r.gpuMiB
	}
	return math.MaxInt32
}

// takeParts allocates parts: on the GPUs of these indexes, where they are known,
// and otherwise on the tightest shared GPUs with enough free capacity, then on
// whole ones.
func (r *capacity) takeParts(f *demand.Fraction, on []int) {
	need, n := r.partsOn(f, on)
	var used []int
	for _, index := range on {
		i := slices.IndexFunc(r.parts, func(s part) bool { return s.gpu == index+1 })
		used = append(used, r.takePart(need, i, index+1))
	}
	for range n {
		used = append(used, r.takePart(need, r.partFor(need, used), 0))
	}
}

// partsOn is the size of each part of a fraction on the GPUs of these indexes, and the number of
// parts whose GPU is unknown.
func (r *capacity) partsOn(f *demand.Fraction, on []int) (part, int) {
	need, n, of := r.partOf(f), min(clampCount(max(f.GPUs, 1)), maxGPUsOfNode), len(on)
	if of > 0 { // containers may have their parts on several GPUs
		need.core, need.memory, n = (need.core*n+of-1)/of, (need.memory*n+of-1)/of, 0
	}
	return need, n
}

// releaseParts releases the parts of a running pod whose GPUs are known. A GPU on which no part is
// left is a whole one again.
func (r *capacity) releaseParts(p *Pod) {
	if p.Demand.Fraction == nil {
		return
	}
	need, _ := r.partsOn(p.Demand.Fraction, p.PartsOn)
	for _, index := range p.PartsOn {
		i := slices.IndexFunc(r.parts, func(s part) bool { return s.gpu == index+1 })
		if i < 0 {
			continue
		}
		s := &r.parts[i]
		s.core, s.memory, s.places = s.core+need.core, s.memory+need.memory, s.places+1
		if *s == r.unused(s.gpu) {
			r.parts = slices.Delete(r.parts, i, i+1)
			r.whole++
		}
	}
}

// takePart allocates a part of the i-th shared GPU, of a whole one where i is
// negative, and returns which it is.
func (r *capacity) takePart(need part, i, gpu int) int {
	if i < 0 {
		r.whole--
		r.parts = append(r.parts, r.unused(gpu))
		i = len(r.parts) - 1
	}
	r.parts[i].core -= need.core
	r.parts[i].memory -= need.memory
	r.parts[i].places--
	return i
}

// maxGPUsOfNode bounds what an invalid snapshot can cost.
const maxGPUsOfNode = 1024

// partFor returns the tightest shared GPU with enough free capacity that is not
// in used, -1 for none.
func (r *capacity) partFor(need part, used []int) int {
	best := -1
	for i, s := range r.parts {
		if !s.holds(need) || slices.Contains(used, i) {
			continue
		}
		if best < 0 || s.core < r.parts[best].core || s.core == r.parts[best].core && s.memory < r.parts[best].memory {
			best = i
		}
	}
	return best
}
