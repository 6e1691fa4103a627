package capacity

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// want is one kind of pending pod: pods that differ in nothing a place depends on.
type want struct {
	pod   *plan.Pod
	index int
	needs map[string][]mig.Count // MIG demand in a model's profiles; nil where it has none
}

// newWants returns the kinds of the pending pods, in the order of the pods.
func newWants(pods []*plan.Pod) []*want {
	var wants []*want
	seen := map[string]bool{}
	for _, p := range pods {
		if p.Node != "" || p.Unreadable != "" {
			continue
		}
		key := fmt.Sprintf("%s|%s|%d|%d|%q|%q|%q", demandText(p.Demand), p.Demand.Vendor, p.CPUMilli, p.MemoryMi,
			p.NodeSelector, p.Affinity, p.Tolerations)
		if !seen[key] {
			seen[key] = true
			wants = append(wants, &want{pod: p, index: len(wants), needs: map[string][]mig.Count{}})
		}
	}
	return wants
}

// need returns the MIG demand in the model's profiles, nil where the model does
// not have them.
func (w *want) need(model string) []mig.Count {
	if need, ok := w.needs[model]; ok {
		return need
	}
	var need []mig.Count
	if t, ok := mig.ForModel(model); ok {
		need = profilesOf(t, w.pod)
	}
	w.needs[model] = need
	return need
}

func profilesOf(t *mig.Table, pod *plan.Pod) []mig.Count {
	var need []mig.Count
	for _, in := range pod.Demand.MIG {
		p, ok := t.Exact(in.Name)
		if !ok {
			return nil
		}
		need = counted(need, p, in.Count)
	}
	return need
}

func counted(cs []mig.Count, p mig.Profile, n int) []mig.Count {
	for i := range cs {
		if cs[i].Profile == p {
			cs[i].N += n
			return cs
		}
	}
	return append(cs, mig.Count{Profile: p, N: n})
}

func countOf(cs []mig.Count, p mig.Profile) int {
	for _, c := range cs {
		if c.Profile == p {
			return c.N
		}
	}
	return 0
}

// wants reports whether the pod asks for parts of this kind at all: whole GPUs
// or fractions of the vendor, or MIG instances of this product.
func (w *want) wants(o *offer, c *GPU, p *Part) bool {
	d := &w.pod.Demand
	if p.Profile != (mig.Profile{}) && !o.single {
		return len(w.need(c.Model)) > 0
	}
	sameVendor := d.Vendor == "" || o.vendor == "" || d.Vendor == o.vendor
	return sameVendor && (d.GPUs > 0 || d.Fraction != nil && p.Profile == (mig.Profile{}))
}

// blocked is what keeps the pod from the part.
func (w *want) blocked(o *offer, c *GPU, p *Part) Cause {
	switch {
	case !o.admits(w):
		return Unreachable
	case !w.fitsShape(o, c, p):
		return Shape
	case !w.enough(o, c):
		return Scattered
	case w.pod.CPUMilli > o.cpu:
		return NoCPU
	case w.pod.MemoryMi > o.memory:
		return NoMemory
	}
	return NoCause
}

// fitsShape reports whether the part by itself is of use to the pod.
func (w *want) fitsShape(o *offer, c *GPU, p *Part) bool {
	d := &w.pod.Demand
	switch {
	case p.Profile != (mig.Profile{}):
		return o.single || countOf(w.need(c.Model), p.Profile) > 0
	case p.Size == wholeGPU:
		return true
	case d.Fraction == nil:
		return false // the rest of a shared GPU is no whole one
	}
	size, ok := fractionSize(w.pod, c.memoryMiB)
	return !ok || size.Compute <= p.Size.Compute && size.Memory <= p.Size.Memory
}

// enough reports whether the node has all that the pod wants together.
func (w *want) enough(o *offer, c *GPU) bool {
	d := &w.pod.Demand
	if d.GPUs > o.whole || d.Fraction != nil && d.Fraction.GPUs > o.open {
		return false
	}
	for _, need := range w.need(c.Model) {
		if countOf(o.instances[c.Model], need.Profile) < need.N {
			return false
		}
	}
	return true
}
