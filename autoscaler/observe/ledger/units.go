package ledger

import (
	"math"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// units converts resources into slices of a GPU.
type units struct {
	scale  *plan.Scale
	shares int // of a GPU, where GPUs are given in shares
}

// newUnits takes the models of the cluster's GPUs, by name.
func newUnits(models []string, tables mig.Tables, shares int) units {
	known := make([]gpu.Model, len(models))
	for i, name := range models {
		known[i] = gpu.Model{Name: name}
		if m, ok := tables.Model(name, 0); ok {
			known[i] = m
		}
	}
	return units{plan.NewScale(tables, known), shares}
}

// perUnit is one unit of an extended resource in thousandths of slices of a GPU; false if it is no
// GPU or has no fixed share of one.
func (u units) perUnit(name string) (quota.Amount, bool) {
	// 100, because some dialects count hundredths of a GPU.
	const many = 100
	d, err := demand.FromResources(map[string]int64{plainName(name): many})
	switch {
	case err != nil || d.Zero():
		return quota.Amount{}, false
	case d.GPUs > 0:
		per := int64(d.GPUs) * 1000 / many
		return quota.Amount{Compute: per * computeSlices, Memory: per * memorySlices}, true
	case d.Fraction.Shares() && u.shares > 0:
		return quota.Amount{Compute: 1000 * computeSlices / int64(u.shares), Memory: 1000 * memorySlices / int64(u.shares)}, true
	case len(d.MIG) == 1:
		one := u.scale.Instance(d.MIG[0])
		return quota.Amount{Compute: one.Compute * 1000, Memory: one.Memory * 1000}, true
	}
	return quota.Amount{}, false
}

// times multiplies a number of units, otherwise if it is not set.
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
