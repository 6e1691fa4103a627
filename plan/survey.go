package plan

import (
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// survey is what is unusual about a node's GPUs. Most have nothing of it, and
// are looked at once.
type survey struct {
	sick   bool // a GPU is broken
	unused bool // something was measured idle while held
	loose  bool // an instance could perhaps be added to a GPU
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
	s.loose = s.loose || c.MIG && t != nil && compute < t.ComputeSlices() && memory < t.MemorySlices()
}
