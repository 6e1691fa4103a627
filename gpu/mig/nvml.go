package mig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
)

// Seen is one GPU instance profile as NVML describes it on a GPU.
type Seen struct {
	Name    string // as NVML has it: "MIG 1g.10gb+me", or without "MIG "
	Compute int    // compute slices of an instance
	Count   int    // most instances on a GPU, by NVML
	Media   int    // decoders of an instance
	Places  []Span // possible placements
}

// Span is a possible placement of an instance, in memory slices.
type Span struct{ Start, Size int }

// SpecFromNVML describes a product by what NVML reports on one of its GPUs; an
// agent publishes the result.
//
// The GPU has the slices of its largest profile. Its decoders are the most that the
// instances of any one profile can have together. The profile of the whole GPU does not
// show them: on B200 its instance has one decoder, as those of every profile (MIG user
// guide, v580).
//
// NVML's instance counts are wrong for some products, so the maximum of a profile follows
// from its placements. Profiles with media engines are also bounded by NVML's count, since
// these engines run out before slices do.
func SpecFromNVML(product string, memoryMiB int, profiles []Seen) (Spec, error) {
	s := Spec{Model: gpu.ProductName(product), MemoryMiB: memoryMiB}
	for _, seen := range profiles {
		ps, err := seen.profile()
		if err != nil {
			return Spec{}, fmt.Errorf("MIG table of %s: profile %q: %w", s.Model, seen.Name, err)
		}
		s.ComputeSlices = max(s.ComputeSlices, ps.Compute)
		s.MediaEngines = max(s.MediaEngines, ps.Media*min(ps.Max, max(seen.Count, 1)))
		for _, start := range ps.Starts {
			s.MemorySlices = max(s.MemorySlices, start+ps.Memory)
		}
		s.Profiles = append(s.Profiles, ps)
	}
	return s, nil
}

func (s Seen) profile() (ProfileSpec, error) {
	name, err := ParseName(strings.TrimPrefix(s.Name, "MIG "))
	if err != nil {
		return ProfileSpec{}, err
	}
	if len(s.Places) == 0 {
		return ProfileSpec{}, fmt.Errorf("no placements")
	}
	ps := ProfileSpec{
		Profile: Profile{Compute: s.Compute, Memory: s.Places[0].Size, Attrs: name.Attrs},
		Name:    name.String(), Media: s.Media,
	}
	for _, p := range s.Places {
		if p.Size != ps.Memory || p.Start < 0 || p.Size < 1 {
			return ProfileSpec{}, fmt.Errorf("placement {%d}:%d beside {%d}:%d", p.Start, p.Size, s.Places[0].Start, ps.Memory)
		}
		ps.Starts = append(ps.Starts, p.Start)
	}
	slices.Sort(ps.Starts)
	ps.Max = sideBySide(ps.Starts, ps.Memory)
	if name.Attrs&(AttrMedia|AttrAllMedia) != 0 {
		ps.Max = min(ps.Max, s.Count)
	}
	return ps, nil
}

// sideBySide is how many instances of size memory slices fit at starts, which are
// sorted.
func sideBySide(starts []int, size int) int {
	n, end := 0, 0
	for _, start := range starts {
		if start >= end {
			n, end = n+1, start+size
		}
	}
	return n
}
