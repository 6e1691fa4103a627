package plan

import (
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// stranded lists the instances that could be added to a GPU's layout: they
// would use slices that are in no instance. Slices that no further instance can use
// (3g.40gb twice leaves one) do not count, since no repartition helps. A GPU with an
// unplaced instance has none.
func (ms *models) stranded(n *nodeState, c *GPU) []mig.Placement {
	if !n.addable || !c.MIG || n.pool == nil || c.Health == gpu.Sick || !n.pool.MIG.Repartition || c.Model.Name != n.model {
		return nil
	}
	t, ok := ms.table(c.Model.Name)
	if !ok {
		return nil
	}
	if slices.ContainsFunc(c.Instances, func(in Instance) bool { return !in.Placed }) {
		return nil
	}
	return ms.addable(t, layoutOf(c), n.pool.MIG.Allowed)
}

// addable is what can be added to a layout, computed once for each.
func (ms *models) addable(t *mig.Table, l mig.Layout, allowed []mig.Profile) []mig.Placement {
	key := question(0, t.Model(), l, mig.Layout(nil), nil, nil)
	free, known := ms.additions[key]
	if !known {
		if t.Legal(l) == nil {
			free = t.Free(l)
		}
		ms.additions[key] = free
	}
	if len(allowed) == 0 {
		return free
	}
	return slices.DeleteFunc(slices.Clone(free), func(p mig.Placement) bool { return !slices.Contains(allowed, p.Profile) })
}

// strandedText is "2 compute and 4 memory slices are in no GPU instance".
func (ms *models) strandedText(c *GPU) string {
	t, _ := ms.table(c.Model.Name) // there is one, as something could be added
	compute, memory := t.FreeSlices(layoutOf(c))
	return fmt.Sprintf("%d compute and %d memory slices are in no GPU instance", compute, memory)
}
