package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// facts is a summary of a GPU. Each GPU is read once: there are many, far apart
// in memory.
type facts struct {
	index     int
	since     time.Time // since when it has been free; zero for allocated or unknown
	instances int
	allocated int  // instances allocated to a pod
	free      bool // known to be allocated to no pod
	known     bool // its allocation
	sick, mig bool
}

// readGPUs reads all GPUs: their capacity, their allocations, and what is unusual
// about them.
func (w *world) readGPUs() {
	total := 0
	for i := range w.nodes {
		total += len(w.nodes[i].Node.GPUs)
	}
	all := make([]facts, total)
	var table *mig.Table
	model := ""
	for i := range w.nodes {
		n := &w.nodes[i]
		n.GPUs = sortedGPUs(n.Node.GPUs)
		n.facts, all = all[:len(n.GPUs):len(n.GPUs)], all[len(n.GPUs):]
		n.capacity = capacity{cpu: stated(n.CPUMilli), memory: stated(n.MemoryMi), others: n.Others}
		single := n.Labels[strategySingle] == "single"
		for c := range n.GPUs {
			device := &n.GPUs[c]
			w.supplyGPU(n, device, single)
			w.noteModel(device.Model)
			if device.MIG && device.Model.Name != model {
				model = device.Model.Name
				table, _ = w.table(model)
			}
			n.facts[c] = n.readGPU(device, table)
		}
	}
}

// readGPU reads one GPU, and counts for its node what is allocated of it.
func (n *nodeState) readGPU(c *GPU, t *mig.Table) facts {
	f := facts{index: c.Index, instances: len(c.Instances), known: c.AllocationKnown, sick: c.Health == gpu.Sick, mig: c.MIG}
	unused, compute, memory := !c.UnusedSince.IsZero(), 0, 0
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.AllocatedTo != "" {
			f.allocated++
			unused = unused || !in.UnusedSince.IsZero()
		} else {
			n.unallocated = added(n.unallocated, in.Profile, 1)
		}
		compute += in.Profile.Compute
		memory += in.Profile.Memory
	}
	if f.free = f.known && f.allocated == 0 && len(c.AllocatedTo) == 0; f.free {
		f.since = c.releasedAt()
	}
	n.unknown, n.unknownMIG = n.unknown || !f.known, n.unknownMIG || f.mig && !f.known
	n.unusual.sick = n.unusual.sick || f.sick
	if !f.mig {
		n.plain++
		n.plainAllocated += min(len(c.AllocatedTo), 1)
	}
	if n.pool >= 0 {
		n.unusual.unused = n.unusual.unused || unused
		n.unusual.addable = n.unusual.addable || f.mig && t != nil && compute < t.ComputeSlices() && memory < t.MemorySlices()
	}
	return f
}

// releasedAt is since when all of a GPU is free; zero for unknown.
func (c *GPU) releasedAt() time.Time {
	since := c.IdleSince
	for i := range c.Instances {
		if c.IdleSince.IsZero() && c.Instances[i].IdleSince.IsZero() {
			return time.Time{}
		}
		since = later(since, c.Instances[i].IdleSince)
	}
	return since
}

// survey is what is unusual about a node's GPUs. Most nodes have nothing
// unusual, and their GPUs are evaluated once.
type survey struct {
	sick    bool // a GPU is broken
	unused  bool // an allocated device was measured idle
	addable bool // an instance can perhaps be added to a GPU
}

// allocationDelay is the usual time from a node's creation, or from a pod's
// binding, until allocations are known.
const allocationDelay = 30 * time.Second

// knownAt is when the allocation of a node's GPU is likely to be known. It is
// false after NodeOverdue where other nodes of the pool show that it can be
// known.
func (w *world) knownAt(n *nodeState) (time.Time, bool) {
	since := w.since(w.state.UnknownSince, n.name)
	if w.now.Sub(since) > w.policy.NodeOverdue && !w.pools[n.pool].unobserved {
		return time.Time{}, false
	}
	// The longer it has lasted, the longer it is likely to last.
	return w.now.Add(max(allocationDelay, w.now.Sub(since))), true
}

// recordUnknown records since when nodes have had GPUs of unknown allocation,
// and finds pools that have nothing but such nodes for longer than NodeOverdue:
// a new node would be as unknown, and could not be repartitioned either.
func (w *world) recordUnknown() {
	known, stale := make([]bool, len(w.pools)), make([]bool, len(w.pools))
	var unknown []Stamp
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || len(n.GPUs) == 0 {
			continue
		}
		if !n.unknown {
			known[n.pool] = true
			continue
		}
		at := w.since(w.state.UnknownSince, n.name)
		stale[n.pool] = stale[n.pool] || w.now.Sub(at) > w.policy.NodeOverdue
		unknown = append(unknown, Stamp{n.name, at})
	}
	w.state.UnknownSince = sortedStamps(unknown)
	for i := range w.pools {
		w.pools[i].unobserved = stale[i] && !known[i]
	}
}
