package ledger

import (
	"math"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// units says what resources are in slices of a card.
type units struct {
	models []string   // of the cluster's cards, sorted
	tables mig.Tables // as nodes have published them
}

// perUnit is what one of an extended resource is in slices of a card, times a
// thousand; false for what is no GPU, or counts something that has no fixed share of
// one.
func (u units) perUnit(name string) (quota.Amount, bool) {
	// A hundred: some dialects count hundredths of a card.
	const many = 100
	d, err := demand.FromResources(map[string]int64{plainName(name): many})
	switch {
	case err != nil || d.Zero():
		return quota.Amount{}, false
	case d.Cards > 0:
		per := int64(d.Cards) * 1000 / many
		return quota.Amount{Compute: per * computeSlices, Memory: per * memorySlices}, true
	case len(d.MIG) == 1:
		compute, memory := u.slicesOf(d.MIG[0])
		return quota.Amount{Compute: compute * 1000, Memory: memory * 1000}, true
	}
	return quota.Amount{}, false
}

// slicesOf is what a profile takes on the first product of the cluster that has it
// by that name; failing that, the least it takes on any, and memory in proportion to
// compute where nobody knows it.
func (u units) slicesOf(in demand.Instances) (compute, memory int64) {
	for _, model := range u.models {
		if table, ok := u.tables.ForModel(model); ok {
			if p, ok := table.Exact(in.Name); ok {
				return int64(p.Compute), int64(p.Memory)
			}
		}
	}
	compute, memory = int64(in.Profile.Compute), int64(in.Profile.Compute)
	found := false
	for _, model := range mig.Models() {
		table, ok := mig.ForModel(model)
		if !ok {
			continue
		}
		if p, ok := table.Exact(in.Name); ok && (!found || int64(p.Memory) < memory) {
			compute, memory, found = int64(p.Compute), int64(p.Memory), true
		}
	}
	return compute, memory
}

// times is a number of units, what is not said otherwise.
func times(one quota.Amount, n *foreign.Amount, otherwise quota.Amount) quota.Amount {
	switch {
	case n == nil:
		return otherwise
	case n.Unlimited || n.Number > math.MaxInt32:
		return quota.All()
	case !(n.Number > 0):
		return quota.Amount{}
	}
	part := func(per int64) int64 { return int64(math.Floor(n.Number*float64(per)/1000 + 1e-9)) }
	return quota.Amount{Compute: part(one.Compute), Memory: part(one.Memory)}
}
