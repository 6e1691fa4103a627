package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// facts is a summary of a GPU. Each GPU is read once: there are many, far apart
// in memory.
type facts struct {
	since     time.Time // since when it has been free; zero for allocated or unknown
	free      bool      // known to be allocated to no pod
	allocated int       // instances allocated to a pod
}

// readGPUs reads all GPUs: their capacity, their allocations, and what is unusual
// about them.
func (w *world) readGPUs() {
	total := 0
	for i := range w.nodes {
		total += len(w.nodes[i].GPUs)
	}
	all := make([]facts, total)
	var table *mig.Table
	model := ""
	for i := range w.nodes {
		n := &w.nodes[i]
		n.GPUs = sortedGPUs(n.GPUs)
		n.facts, all = all[:len(n.GPUs):len(n.GPUs)], all[len(n.GPUs):]
		n.capacity = capacity{cpu: stated(n.CPUMilli), memory: stated(n.MemoryMi), others: n.Others}
		single := n.Labels[strategySingle] == "single"
		for c := range n.GPUs {
			device := &n.GPUs[c]
			w.supplyGPU(n, device, single)
			w.noteModel(device.Model)
			n.facts[c] = n.readGPU(device)
			if device.MIG && device.Model.Name != model {
				model = device.Model.Name
				table, _ = w.table(model)
			}
			if n.pool >= 0 {
				n.unusual.look(device, table)
			}
			n.unusual.sick = n.unusual.sick || device.Health == gpu.Sick
		}
	}
}

// readGPU reads one GPU and counts for its node what is allocated of it.
func (n *nodeState) readGPU(c *GPU) facts {
	var f facts
	f.free, f.since = gpuFree(c)
	n.unknown = n.unknown || !c.AllocationKnown
	if !c.MIG {
		n.plain++
		if len(c.AllocatedTo) > 0 {
			n.plainAllocated++
		}
		return f
	}
	n.unknownMIG = n.unknownMIG || !c.AllocationKnown
	for i := range c.Instances {
		if c.Instances[i].AllocatedTo != "" {
			f.allocated++
		} else {
			n.unallocated = added(n.unallocated, c.Instances[i].Profile, 1)
		}
	}
	return f
}

// survey is what is unusual about a node's GPUs. Most nodes have nothing
// unusual, and their GPUs are evaluated once.
type survey struct {
	sick    bool // a GPU is broken
	unused  bool // an allocated device was measured idle
	addable bool // an instance can perhaps be added to a GPU
}

func (s *survey) look(c *GPU, t *mig.Table) {
	s.sick = s.sick || c.Health == gpu.Sick
	s.unused = s.unused || !c.UnusedSince.IsZero()
	compute, memory := 0, 0
	for i := range c.Instances {
		in := &c.Instances[i]
		s.unused = s.unused || !in.UnusedSince.IsZero()
		compute += in.Profile.Compute
		memory += in.Profile.Memory
	}
	s.addable = s.addable || c.MIG && t != nil && compute < t.ComputeSlices() && memory < t.MemorySlices()
}
