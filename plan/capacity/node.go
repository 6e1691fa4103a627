package capacity

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// node returns the GPUs of a node with their parts. A node of a pool that shows
// no GPUs yet has those of its pool's template: it exists, and is paid for.
func (b *builder) node(n *plan.Node) []GPU {
	pool := b.pools[n.Pool]
	source, state := n.GPUs, b.nodeState(n)
	if len(source) == 0 && pool != nil {
		source = pool.Template.GPUs
		if state != Booting {
			state = Unready
		}
	}
	source = slices.Clone(source)
	slices.SortStableFunc(source, func(x, y plan.GPU) int { return cmp.Compare(x.Index, y.Index) })
	gpus := make([]GPU, len(source))
	for i := range source {
		c := &gpus[i]
		*c = GPU{Node: n.Name, Pool: n.Pool, Model: source[i].Model.Name, Index: source[i].Index,
			memoryMiB: source[i].Model.MemoryMiB}
		if pool != nil && len(n.GPUs) == 0 {
			c.Index = i // a template's GPUs need not be numbered
		}
		c.State = gpuState(n, &source[i], state)
		b.split(c, &source[i])
	}
	b.judgeFree(n, gpus)
	return gpus
}

// nodeState is Free for a node in service.
func (b *builder) nodeState(n *plan.Node) State {
	young := false
	if pool := b.pools[n.Pool]; pool != nil {
		within := max(b.rules.BootWithin, 3*min(pool.ReadyAfter, 1000*time.Hour))
		young = b.now.Sub(n.Created) < within
	}
	switch {
	case young && (!n.Ready || len(n.GPUs) == 0):
		return Booting
	case !n.Ready:
		return Unready
	case n.Drain != nil, n.Cordoned && n.CordonedBy == "":
		return Cordoned
	case n.CordonedBy != "":
		return Repartitioning // the whole node is out of use for one GPU
	}
	return Free
}

// gpuState is that of the node, unless the GPU has a worse one of its own.
func gpuState(n *plan.Node, c *plan.GPU, node State) State {
	state := node
	switch {
	case c.Health == gpu.Sick:
		return Sick
	case node == Booting || node == Unready:
	case !c.AllocationKnown || !legible(c):
		return Unknown
	case n.Operation != nil && n.Operation.GPU == c.Index:
		return Repartitioning
	}
	return state
}
