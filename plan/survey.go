package plan

import (
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

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
