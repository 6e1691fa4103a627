package sim

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// grant is one GPU (instance -1), shared or not, or one instance of it,
// allocated to a pod.
type grant struct{ device, instance int }

// shares computes what is free of shared GPUs.
type shares struct {
	pods   []plan.Pod
	tables mig.Tables
	at     map[string]int // by name; made for the first fraction
}

// choose finds GPUs, parts of GPUs and instances for a pod on a node.
func (s *shares) choose(p *plan.Pod, n *plan.Node) ([]grant, bool) {
	got := wholeGPUs(p, n)
	if len(got) < p.Demand.GPUs {
		return nil, false
	}
	if p.Demand.Fraction != nil {
		parts := s.partsOf(p, n, got)
		if len(parts) < max(p.Demand.Fraction.GPUs, 1) {
			return nil, false
		}
		got = append(got, parts...)
	}
	for _, request := range p.Demand.MIG {
		instances := s.freeInstances(request, n, got)
		if len(instances) < request.Count {
			return nil, false
		}
		got = append(got, instances...)
	}
	return got, true
}

// usable reports whether a GPU can be allocated as a whole or in parts.
func usable(p *plan.Pod, device *plan.GPU) bool {
	return !device.MIG && device.Health != gpu.Sick && (p.Demand.Vendor == "" || device.Model.Vendor == p.Demand.Vendor)
}

func wholeGPUs(p *plan.Pod, n *plan.Node) []grant {
	var got []grant
	for c := range n.GPUs {
		if device := &n.GPUs[c]; len(got) < p.Demand.GPUs && usable(p, device) && !device.Shared && len(device.AllocatedTo) == 0 {
			got = append(got, grant{c, -1})
		}
	}
	return got
}

func (s *shares) freeInstances(request demand.Instances, n *plan.Node, taken []grant) []grant {
	var got []grant
	for c := range n.GPUs {
		if len(n.GPUs[c].Instances) == 0 || n.GPUs[c].Health == gpu.Sick {
			continue
		}
		var profile mig.Profile
		if t, ok := s.tables.ForModel(n.GPUs[c].Model.Name); ok {
			profile, _ = t.Exact(request.Name)
		}
		for i := range n.GPUs[c].Instances {
			in := &n.GPUs[c].Instances[i]
			if profile.Compute > 0 && len(got) < request.Count && in.AllocatedTo == "" && in.Profile == profile && !slices.Contains(taken, grant{c, i}) {
				got = append(got, grant{c, i})
			}
		}
	}
	return got
}

// partsOf finds as many different GPUs as a fraction requests parts of: the
// fullest shared ones first, then free ones.
func (s *shares) partsOf(p *plan.Pod, n *plan.Node, taken []grant) []grant {
	var got []grant
	for range max(p.Demand.Fraction.GPUs, 1) {
		best, least := -1, part{}
		for c := range n.GPUs {
			device := &n.GPUs[c]
			g := grant{c, -1}
			if !usable(p, device) || slices.Contains(taken, g) || slices.Contains(got, g) {
				continue
			}
			left, ok := s.left(device)
			if ok && partOf(p.Demand.Fraction, device).within(left) && (best < 0 || left.less(least)) {
				best, least = c, left
			}
		}
		if best < 0 {
			break
		}
		got = append(got, grant{best, -1})
	}
	return got
}

// part of a GPU: thousandths of its compute, and MiB.
type part struct{ core, memory int }

func (a part) within(b part) bool { return a.core <= b.core && a.memory <= b.memory }

func (a part) less(b part) bool { return a.core < b.core || a.core == b.core && a.memory < b.memory }

// memoryOf is a GPU's memory in MiB; where it is unknown, a number large enough
// to limit nothing.
func memoryOf(device *plan.GPU) int {
	if device.Model.MemoryMiB > 0 {
		return device.Model.MemoryMiB
	}
	return math.MaxInt32
}

func partOf(f *demand.Fraction, device *plan.GPU) part {
	share := int64(memoryOf(device)) * int64(f.MemoryMilli) / 1000 // rounded down, as HAMi does
	return part{core: f.CoreMilli, memory: max(f.MemoryMiB, int(share))}
}

// left is what is free of a shared GPU; false where a pod has all of it or an
// unknown part. A pod with whole GPUs and a part is assumed to have all of
// each.
func (s *shares) left(device *plan.GPU) (part, bool) {
	left := part{core: 1000, memory: memoryOf(device)}
	for _, h := range device.AllocatedTo {
		i, ok := s.index()[h]
		if !ok || s.pods[i].Demand.Fraction == nil || s.pods[i].Demand.GPUs > 0 {
			return part{}, false
		}
		used := partOf(s.pods[i].Demand.Fraction, device)
		left.core -= used.core
		left.memory -= used.memory
	}
	return left, true
}

func (s *shares) index() map[string]int {
	if s.at == nil {
		s.at = make(map[string]int, len(s.pods))
		for i := range s.pods {
			s.at[s.pods[i].Key()] = i
		}
	}
	return s.at
}
