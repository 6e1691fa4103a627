package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// gpu changes a GPU of a node (or, with the word template, of a pool), and adds
// it when there is none of that index. The word fails makes its next
// repartition fail in the simulated world.
func (w *World) gpu(s statement) error {
	r, name, err := w.reader(s, true)
	if err != nil {
		return err
	}
	slash := strings.LastIndexByte(name, '/')
	if slash < 0 {
		return fmt.Errorf("want node/index: %q", name)
	}
	index, err := strconv.Atoi(name[slash+1:])
	if err != nil {
		return fmt.Errorf("want node/index: %q", name)
	}
	template, fails := false, false
	r.flag("template", &template)
	if r.flag("fails", &fails); fails {
		w.Sim.Fail = append(w.Sim.Fail, name)
	}
	gpus := w.gpusOf(name[:slash], template)
	if gpus == nil {
		return fmt.Errorf("there is no %s above", name[:slash])
	}
	i := slices.IndexFunc(*gpus, func(c plan.GPU) bool { return c.Index == index })
	if i < 0 {
		c := plan.GPU{AllocationKnown: true}
		c.Index = index
		*gpus = append(*gpus, c)
		i = len(*gpus) - 1
	}
	readGPU(r, &(*gpus)[i])
	return r.err()
}

func (w *World) gpusOf(name string, template bool) *[]plan.GPU {
	state := &w.Sim.State
	// From the end: a gpu line mostly follows its node, and a large cluster has as
	// many nodes as lines.
	if template {
		for i := len(state.Pools) - 1; i >= 0; i-- {
			if state.Pools[i].Name == name {
				return &state.Pools[i].Template.GPUs
			}
		}
		return nil
	}
	for i := len(state.Nodes) - 1; i >= 0; i-- {
		if state.Nodes[i].Name == name {
			return &state.Nodes[i].GPUs
		}
	}
	return nil
}
