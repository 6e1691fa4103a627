package fleet

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// cause is why no pending pod can use a free part. The causes are in order: a later one is nearer to serving a pod.
type cause int

const (
	noCause       cause = iota
	odd                 // no profile fits what the instances leave: compute without memory, or the reverse
	unpartitioned       // slices in no instance: they cannot be requested until the GPU is repartitioned
	unreachable         // selectors or taints keep all pending pods that request this kind from the node
	shape               // pending pods request another size
	scattered           // of the right kind, but a pod requests more of them together than the node has
	noMemory            // the node has less memory left than a pod requests
	noCPU
)

var causeWords = []string{"", "odd", "unpartitioned", "unreachable", "shape", "scattered", "no_memory", "no_cpu"}

// use is fragmented where another layout, or another placement of the same pods, would help. It is stranded where the
// node is the obstacle.
func (c cause) use() use {
	switch c {
	case noCause:
		return free
	case unreachable, noMemory, noCPU:
		return stranded
	}
	return fragmented
}

// left is what a node has free, as it is partitioned.
type left struct {
	single        bool
	cpu, memory   int64
	whole, partly int // free GPUs without MIG, or instances under the single strategy; partly: GPUs of which a part is free
	instances     map[instance]int
}

type instance struct {
	model   string
	profile mig.Profile
}

func (v *survey) leftOn(n *plan.Node, parts []part) left {
	r := left{single: plan.InstancesAsGPUs(n.Labels), cpu: math.MaxInt64, memory: math.MaxInt64, instances: map[instance]int{}}
	used := v.requests[n.Name]
	if n.CPUMilli > 0 { // otherwise it is not stated
		r.cpu = n.CPUMilli - used.cpu
	}
	if n.MemoryMi > 0 {
		r.memory = n.MemoryMi - used.memory
	}
	for i := range parts {
		switch p := &parts[i]; {
		case p.use != free:
		case p.profile == (mig.Profile{}):
			r.partly++
			if p.size == 1 {
				r.whole++
			}
		case r.single:
			r.whole++
		default:
			r.instances[instance{p.gpu.Model.Name, p.profile}]++
		}
	}
	return r
}

// judge finds the free parts of a node in service that no pending pod can use. It judges each part by itself.
func (v *survey) judge(n *plan.Node, parts []part) {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.use == free }) {
		return
	}
	type like struct {
		gpu.Model
		mig.Profile
		size, memory float64
	}
	r, causes := v.leftOn(n, parts), map[like]cause{}
	for i := range parts {
		p := &parts[i]
		if p.use != free {
			continue
		}
		kind := like{p.gpu.Model, p.profile, p.size, p.memory}
		why, known := causes[kind]
		if !known {
			why = v.why(n, &r, p)
			causes[kind] = why
		}
		p.cause, p.use = why, why.use()
	}
}

// why returns the nearest cause that keeps pending pods from a part; noCause where one of them could use it. A part
// whose kind no pod requests has no cause, unless its node has no CPU or memory left.
func (v *survey) why(n *plan.Node, r *left, p *part) cause {
	nearest := noCause
	for _, pod := range v.kinds {
		if why, requested := v.keeps(pod, n, r, p); requested {
			if why == noCause {
				return noCause
			}
			nearest = max(nearest, why)
		}
	}
	switch {
	case nearest != noCause:
		return nearest
	case r.cpu <= 0:
		return noCPU
	case r.memory <= 0:
		return noMemory
	}
	return noCause
}

// keeps returns what keeps a pod from a part; false where the pod requests no part of that kind.
func (v *survey) keeps(pod *plan.Pod, n *plan.Node, r *left, p *part) (cause, bool) {
	d, model := &pod.Demand, p.gpu.Model.Name
	fits, enough := true, d.GPUs <= r.whole && (d.Fraction == nil || d.Fraction.GPUs <= r.partly)
	if p.profile != (mig.Profile{}) && !r.single {
		requested := profilesOf(p.table, d)
		if len(requested) == 0 {
			return noCause, false
		}
		fits = mig.CountOf(requested, p.profile) > 0
		for _, c := range requested {
			enough = enough && r.instances[instance{model, c.Profile}] >= mig.CountOf(requested, c.Profile)
		}
	} else if other := d.Vendor != "" && p.gpu.Model.Vendor != "" && d.Vendor != p.gpu.Model.Vendor; other ||
		d.GPUs <= 0 && (d.Fraction == nil || p.profile != (mig.Profile{})) {
		return noCause, false
	} else if p.profile == (mig.Profile{}) && p.size < 1 { // partly used, and no whole GPU
		fits = false
		if d.Fraction != nil {
			compute, memory, stated := fractionOf(d.Fraction, p.gpu.Model.MemoryMiB)
			fits = !stated || compute <= p.size+rounding && memory <= p.memory+rounding
		}
	}
	switch {
	case !plan.Admits(*pod, n.Name, n.Labels, n.Taints):
		return unreachable, true
	case !fits:
		return shape, true
	case !enough:
		return scattered, true
	case pod.CPUMilli > r.cpu:
		return noCPU, true
	case pod.MemoryMi > r.memory:
		return noMemory, true
	}
	return noCause, true
}

// profilesOf is a MIG demand in a product's profiles, nil where it does not have them.
func profilesOf(t *mig.Table, d *demand.Demand) []mig.Count {
	var counts []mig.Count
	for _, in := range d.MIG {
		p, ok := t.Exact(in.Name)
		if !ok {
			return nil
		}
		counts = append(counts, mig.Count{Profile: p, N: in.Count})
	}
	return counts
}
