package capacity

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// request is one kind of pending pod: pods that do not differ in anything
// placement depends on.
type request struct {
	pod      *plan.Pod
	index    int
	profiles map[string][]mig.Count // MIG demand in a model's profiles; nil where it has none
}

// newRequests returns the kinds of the pending pods, in the order of the pods.
func newRequests(pods []*plan.Pod) []*request {
	var kinds []*request
	seen := map[string]bool{}
	for _, p := range pods {
		if p.Node != "" || p.Unreadable != "" {
			continue
		}
		key := fmt.Sprintf("%s|%s|%d|%d|%q|%q|%q", demandText(p.Demand), p.Demand.Vendor, p.CPUMilli, p.MemoryMi,
			p.NodeSelector, p.Affinity, p.Tolerations)
		if !seen[key] {
			seen[key] = true
			kinds = append(kinds, &request{pod: p, index: len(kinds), profiles: map[string][]mig.Count{}})
		}
	}
	return kinds
}

// profilesOn returns the MIG demand in the model's profiles, nil where the
// model does not have them.
func (w *request) profilesOn(model string) []mig.Count {
	if counts, ok := w.profiles[model]; ok {
		return counts
	}
	var counts []mig.Count
	if t, ok := mig.ForModel(model); ok {
		counts = profilesOf(t, w.pod)
	}
	w.profiles[model] = counts
	return counts
}

func profilesOf(t *mig.Table, pod *plan.Pod) []mig.Count {
	var counts []mig.Count
	for _, in := range pod.Demand.MIG {
		p, ok := t.Exact(in.Name)
		if !ok {
			return nil
		}
		counts = counted(counts, p, in.Count)
	}
	return counts
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

// matches reports whether the pod requests parts of this kind: whole GPUs or
// fractions of the vendor, or MIG instances of this product.
func (w *request) matches(o *offer, c *GPU, p *Part) bool {
	d := &w.pod.Demand
	if p.Profile != (mig.Profile{}) && !o.single {
		return len(w.profilesOn(c.Model)) > 0
	}
	sameVendor := d.Vendor == "" || o.vendor == "" || d.Vendor == o.vendor
	return sameVendor && (d.GPUs > 0 || d.Fraction != nil && p.Profile == (mig.Profile{}))
}

// blocked is what keeps the pod from the part.
func (w *request) blocked(o *offer, c *GPU, p *Part) Cause {
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

// fitsShape reports whether the pod can use the part by itself.
func (w *request) fitsShape(o *offer, c *GPU, p *Part) bool {
	d := &w.pod.Demand
	switch {
	case p.Profile != (mig.Profile{}):
		return o.single || mig.CountOf(w.profilesOn(c.Model), p.Profile) > 0
	case p.Size == wholeGPU:
		return true
	case d.Fraction == nil:
		return false // a partly used GPU is no whole one
	}
	size, ok := fractionSize(w.pod, c.memoryMiB)
	return !ok || size.Compute <= p.Size.Compute && size.Memory <= p.Size.Memory
}

// enough reports whether the node has all that the pod requests.
func (w *request) enough(o *offer, c *GPU) bool {
	d := &w.pod.Demand
	if d.GPUs > o.whole || d.Fraction != nil && d.Fraction.GPUs > o.partlyFree {
		return false
	}
	for _, counts := range w.profilesOn(c.Model) {
		if mig.CountOf(o.instances[c.Model], counts.Profile) < counts.N {
			return false
		}
	}
	return true
}
