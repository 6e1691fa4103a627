package plan

import (
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"pgregory.net/rapid"
)

// TestPartsOfGPUs allocates parts of GPUs and counts along, GPU by GPU: a pod
// fits when as many GPUs as it requests have its part free beside the whole
// ones it requests, and what it takes is taken from as many GPUs, never more
// than they had. MiB of GPUs of unknown memory do not fit.
func TestPartsOfGPUs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const memory = 1000
		var free capacity
		free.whole = rapid.IntRange(-1, 4).Draw(r, "gpus")
		free.vendor = "nvidia"
		if rapid.Bool().Draw(r, "memory known") {
			free.gpuMiB = memory
		}
		for range rapid.IntRange(1, 12).Draw(r, "pods") {
			f := &demand.Fraction{CoreMilli: rapid.IntRange(0, 1100).Draw(r, "core"), MemoryMiB: rapid.IntRange(0, 1100).Draw(r, "memory"),
				MemoryMilli: rapid.SampledFrom([]int{0, 1, 250, 1000, 1001}).Draw(r, "share"), GPUs: rapid.IntRange(0, 3).Draw(r, "of GPUs")}
			p := &Pod{Demand: demand.Demand{Vendor: "nvidia", GPUs: rapid.IntRange(0, 2).Draw(r, "whole"), Fraction: f}}
			need := free.partOf(f)
			before, shared := gpusOf(&free), len(free.parts)
			fit := 0
			for _, c := range before {
				if c.core >= need.core && c.memory >= need.memory {
					fit++
				}
			}
			// The whole GPUs of its request are not for its parts.
			untouched := max(free.whole, 0)
			fits := need.core <= 1000 && need.memory <= free.partMemory() && (f.MemoryMiB == 0 || free.gpuMiB > 0) &&
				fit-min(p.Demand.GPUs, untouched) >= max(f.GPUs, 1) && p.Demand.GPUs <= untouched
			if got := free.hasParts(p) && p.Demand.GPUs <= untouched; got != fits {
				r.Fatalf("%+v in %+v: fits %v, counted %v", *f, free, got, fits)
			}
			if !fits {
				continue
			}
			was := slices.Clone(free.parts)
			free.takePlain(p, 1)
			checkTaken(r, &free, before, need, p)
			for i, c := range free.parts[:shared] {
				if twice := (part{core: was[i].core - c.core, memory: was[i].memory - c.memory}); twice != (part{}) && twice != need {
					r.Fatalf("%+v taken of one GPU for parts of %+v", twice, need)
				}
			}
		}
	})
}

// gpusOf lists what is free of every GPU.
func gpusOf(r *capacity) []part {
	var all []part
	for range r.whole {
		all = append(all, r.unused(0))
	}
	return append(all, r.parts...)
}

func checkTaken(r *rapid.T, left *capacity, before []part, need part, p *Pod) {
	gpus := max(p.Demand.Fraction.GPUs, 1)
	var core, memory int
	for _, c := range before {
		core, memory = core+c.core, memory+c.memory
	}
	after := gpusOf(left)
	for _, c := range after {
		core, memory = core-c.core, memory-c.memory
		if c.core < 0 || c.memory < 0 {
			r.Fatalf("a GPU has less than nothing left: %+v", *left)
		}
	}
	whole := p.Demand.GPUs
	if len(before)-len(after) != whole || core != gpus*need.core+1000*whole || memory != gpus*need.memory+left.partMemory()*whole {
		r.Fatalf("took %d GPUs, %d thousandths, %d MiB for %d × %+v and %d whole", len(before)-len(after), core, memory, gpus, need, whole)
	}
}
