package sim

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// grant is a GPU, shared or not, or one instance of it, for a pod.
type grant struct {
	device   *plan.GPU
	instance *plan.Instance // nil for the GPU
}

// choose finds the GPUs, parts of GPUs and instances that a pod requests on a node; false
// where it lacks one.
func (s *scheduler) choose(p *plan.Pod, n *plan.Node) ([]grant, bool) {
	var got []grant
	for c := range n.GPUs {
		if device := &n.GPUs[c]; len(got) < p.Demand.GPUs && usable(p, device) && !device.Shared && len(device.AllocatedTo) == 0 {
			got = append(got, grant{device: device})
		}
	}
	if len(got) < p.Demand.GPUs {
		return nil, false
	}
	if f := p.Demand.Fraction; f != nil {
		for range max(f.GPUs, 1) {
			device := s.tightest(p, n, got)
			if device == nil {
				return nil, false
			}
			got = append(got, grant{device: device})
		}
	}
	for _, request := range p.Demand.MIG {
		need := len(got) + request.Count
		if got = s.claims(request.Name, n, s.instances(request.Name, n, got, need), need); len(got) < need {
			return nil, false
		}
	}
	return got, true
}

// usable reports whether a GPU can be allocated to a pod, as a whole or in parts.
func usable(p *plan.Pod, device *plan.GPU) bool {
	return !device.MIG && device.Health != gpu.Sick && (p.Demand.Vendor == "" || device.Model.Vendor == p.Demand.Vendor)
}

// instances adds free instances of the profile called name to got, until it has need grants.
func (s *scheduler) instances(name string, n *plan.Node, got []grant, need int) []grant {
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if len(device.Instances) == 0 || device.Health == gpu.Sick {
			continue
		}
		var profile mig.Profile
		if t, ok := s.w.State.Tables.ForModel(device.Model.Name); ok {
			profile, _ = t.Exact(name)
		}
		for i := range device.Instances {
			in := &device.Instances[i]
			if len(got) < need && profile.Compute > 0 && in.Profile == profile && in.AllocatedTo == "" && !slices.Contains(got, grant{device, in}) {
				got = append(got, grant{device, in})
			}
		}
	}
	return got
}

// claims adds instances that a DRA driver creates to got, until it has need grants: first on GPUs that have
// instances already, then on whole ones.
func (s *scheduler) claims(name string, n *plan.Node, got []grant, need int) []grant {
	for _, divided := range []bool{true, false} {
		for c := 0; c < len(n.GPUs) && len(got) < need; c++ {
			device := &n.GPUs[c]
			t, ok := s.w.State.Tables.ForModel(device.Model.Name)
			if !ok || !device.ByClaim || device.MIG != divided || device.Health == gpu.Sick || len(device.AllocatedTo) > 0 || slices.Contains(got, grant{device: device}) {
				continue
			}
			profile, _ := t.Exact(name)
			var layout mig.Layout
			for _, in := range device.Instances {
				layout = append(layout, in.Placement)
			}
			for _, g := range got {
				if g.device == device && g.instance != nil {
					layout = append(layout, g.instance.Placement)
				}
			}
			for _, at := range t.Free(layout) {
				if len(got) < need && at.Profile == profile && slices.Contains(t.Free(layout), at) {
					layout = append(layout, at)
					got = append(got, grant{device, &plan.Instance{Placement: at, Placed: true}})
				}
			}
		}
	}
	return got
}

// part is a part of a GPU: thousandths of its compute, and MiB of its memory.
type part struct{ core, memory int }

// tightest returns the GPU with the least left that has the part a pod requests: a shared GPU
// before a free one. GPUs in taken are left out. It is nil for none.
func (s *scheduler) tightest(p *plan.Pod, n *plan.Node, taken []grant) *plan.GPU {
	var best *plan.GPU
	var least part
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if !usable(p, device) || slices.Contains(taken, grant{device: device}) {
			continue
		}
		left, ok := s.left(device)
		request := partOf(p.Demand.Fraction, device)
		if !ok || request.core > left.core || request.memory > left.memory {
			continue
		}
		if best == nil || left.core < least.core || left.core == least.core && left.memory < least.memory {
			best, least = device, left
		}
	}
	return best
}

// left returns what is free of a GPU. It is false where a pod has all of it or an
// unknown part, or where no place is left. A pod that requests whole GPUs and a part is
// assumed to have all of each GPU.
func (s *scheduler) left(device *plan.GPU) (part, bool) {
	left := part{1000, memoryOf(device)}
	if device.Places > 0 && len(device.AllocatedTo) >= device.Places {
		return part{}, false
	}
	for _, key := range device.AllocatedTo {
		i := s.w.pod(key)
		if i < 0 || s.w.State.Pods[i].Demand.Fraction == nil || s.w.State.Pods[i].Demand.GPUs > 0 {
			return part{}, false
		}
		used := partOf(s.w.State.Pods[i].Demand.Fraction, device)
		left.core -= used.core
		left.memory -= used.memory
	}
	return left, true
}

func partOf(f *demand.Fraction, device *plan.GPU) part {
	share := int64(memoryOf(device)) * int64(f.MemoryMilli) / 1000 // rounded down, as HAMi does
	return part{f.CoreMilli, max(f.MemoryMiB, int(share))}
}

// memoryOf is a GPU's memory in MiB; where it is unknown, a number large enough
// to limit nothing.
func memoryOf(device *plan.GPU) int {
	if device.Model.MemoryMiB > 0 {
		return device.Model.MemoryMiB
	}
	return math.MaxInt32
}
