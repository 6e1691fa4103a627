package capacity

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// offer is the free capacity of a node as it is partitioned.
type offer struct {
	node        *plan.Node
	single      bool
	cpu, memory int64 // free; negative where pods request more than there is
	whole       int   // free GPUs without MIG, or free instances under the single strategy
	partlyFree  int   // GPUs without MIG with free capacity
	vendor      string
	admitted    []answer               // by request
	instances   map[string][]mig.Count // free, by model
}

type answer uint8

const (
	notEvaluated answer = iota
	yes
	no
)

// unstated stands for CPU or memory that the snapshot does not state: no limit.
const unstated = 1 << 61

func (b *builder) offer(n *plan.Node, gpus []GPU) offer {
	o := offer{node: n, cpu: unstated, memory: unstated, admitted: make([]answer, len(b.requests)), instances: map[string][]mig.Count{},
		single: n.Labels["nvidia.com/mig.strategy"] == "single"}
	if n.CPUMilli > 0 {
		o.cpu = n.CPUMilli - b.used[n.Name].cpu
	}
	if n.MemoryMi > 0 {
		o.memory = n.MemoryMi - b.used[n.Name].memory
	}
	if len(n.GPUs) > 0 {
		o.vendor = n.GPUs[0].Model.Vendor
	}
	for i := range gpus {
		c := &gpus[i]
		for _, p := range c.Parts {
			switch {
			case p.State != Free:
			case p.Profile == (mig.Profile{}):
				o.partlyFree++
				if p.Size == wholeGPU {
					o.whole++
				}
			case o.single:
				o.whole++
			default:
				o.instances[c.Model] = counted(o.instances[c.Model], p.Profile, 1)
			}
		}
	}
	return o
}

// admits reports whether selectors and taints let the pod onto the node.
func (o *offer) admits(w *request) bool {
	a := &o.admitted[w.index]
	if *a == notEvaluated {
		*a = no
		if plan.Admits(*w.pod, o.node.Labels, o.node.Taints) {
			*a = yes
		}
	}
	return *a == yes
}

// judgeFree sets state and cause of the free parts of a node in service, each
// by itself. A part whose kind no pending pod requests is Free, unless the node
// has no CPU or memory left.
func (b *builder) judgeFree(n *plan.Node, gpus []GPU) {
	free := func(p Part) bool { return p.State == Free }
	if !slices.ContainsFunc(gpus, func(c GPU) bool { return slices.ContainsFunc(c.Parts, free) }) {
		return
	}
	type like struct {
		model     string
		memoryMiB int
		profile   mig.Profile
		size      Size
	}
	o := b.offer(n, gpus)
	causes := map[like]Cause{} // of equal parts
	for i := range gpus {
		c := &gpus[i]
		for k := range c.Parts {
			p := &c.Parts[k]
			if p.State != Free {
				continue
			}
			kind := like{c.Model, c.memoryMiB, p.Profile, p.Size}
			cause, known := causes[kind]
			if !known {
				cause = b.cause(&o, c, p)
				causes[kind] = cause
			}
			p.Cause, p.State = cause, cause.state()
		}
	}
}

// cause is what keeps the pending pod that comes nearest from the part, NoCause
// where one could use it.
func (b *builder) cause(o *offer, c *GPU, p *Part) Cause {
	nearest := NoCause
	for _, w := range b.requests {
		if !w.matches(o, c, p) {
			continue
		}
		why := w.blocked(o, c, p)
		if why == NoCause {
			return NoCause
		}
		nearest = max(nearest, why)
	}
	switch {
	case nearest != NoCause:
		return nearest
	case o.cpu <= 0:
		return NoCPU
	case o.memory <= 0:
		return NoMemory
	}
	return NoCause
}
