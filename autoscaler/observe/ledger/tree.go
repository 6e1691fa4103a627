package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Slices of a GPU: the unit of quotas for every model.
const (
	computeSlices = 7
	memorySlices  = 8
)

// gpus converts GPU equivalents into slices, rounded down.
func gpus(n float64) quota.Amount {
	part := func(slices float64) int64 {
		v := math.Floor(n*slices + 1e-9)
		switch {
		case !(v > 0):
			return 0
		case v >= math.MaxInt32:
			return quota.Unlimited
		}
		return int64(v)
	}
	return quota.Amount{Compute: part(computeSlices), Memory: part(memorySlices)}
}

// Equivalents formats an amount in GPU equivalents, "∞" without a bound: the larger of its shares
// of compute and memory.
func Equivalents(a quota.Amount) string {
	if a.Compute == quota.Unlimited || a.Memory == quota.Unlimited {
		return "∞"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", equivalents(a)), "0"), ".")
}

// tree is a set of tenants that may be invalid.
type tree struct {
	tenants []entry
	problem func(of, format string, args ...any)
}

// entry is a tenant and the object that defines it ("GPUQuota team-a").
type entry struct {
	plan.Tenant
	of string
	// whole: its guarantee includes those of its children.
	whole bool
}

// build returns tenants that form a valid tree. Whatever is invalid is recorded as a problem of the
// object that defines it, and left out.
func (t *tree) build() []plan.Tenant {
	slices.SortStableFunc(t.tenants, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	t.tenants = slices.CompactFunc(t.tenants, func(a, b entry) bool { return a.Name == b.Name })
	index := map[string]int{}
	for i := range t.tenants {
		index[t.tenants[i].Name] = i
	}
	for i := range t.tenants {
		e := &t.tenants[i]
		if _, ok := index[e.Parent]; !ok && e.Parent != "" {
			t.problem(e.of, "spec.parent: there is no %q: the quota has no parent, and neither lends nor borrows; create it or correct the name", e.Parent)
			e.Parent = ""
		}
	}
	t.breakCircles(index)
	t.share(index)
	t.limit(index)
	out := make([]plan.Tenant, len(t.tenants))
	for i := range t.tenants {
		out[i] = t.tenants[i].Tenant
	}
	return out
}

// breakCircles removes the parents of all tenants in a circle.
func (t *tree) breakCircles(index map[string]int) {
	var inCircle []int
	for i := range t.tenants {
		at, path := i, []string{t.tenants[i].Name}
		for range t.tenants {
			parent := t.tenants[at].Parent
			if parent == "" {
				break
			}
			at = index[parent]
			path = append(path, parent)
			if at == i {
				inCircle = append(inCircle, i)
				t.problem(t.tenants[i].of, "spec.parent: a circle, %s: none of these has a parent; remove the parent of one of them", strings.Join(path, " → "))
				break
			}
		}
	}
	for _, i := range inCircle {
		t.tenants[i].Parent = ""
	}
}

// share subtracts the children's guarantees from parents whose guarantee includes them.
func (t *tree) share(index map[string]int) {
	under := make([]quota.Amount, len(t.tenants))
	for i := range t.tenants {
		if p := t.tenants[i].Parent; p != "" {
			under[index[p]] = under[index[p]].Add(t.tenants[i].Guarantee)
		}
	}
	for i := range t.tenants {
		if e := &t.tenants[i]; e.whole {
			e.Guarantee = e.Guarantee.Sub(under[i]).Floor()
		}
	}
}

// limit raises limits that are below the guarantees under them.
func (t *tree) limit(index map[string]int) {
	guaranteed := make([]quota.Amount, len(t.tenants))
	for i := range t.tenants {
		// Up to the root; breakCircles guarantees that there is one.
		for at, steps := i, 0; steps <= len(t.tenants); steps++ {
			guaranteed[at] = guaranteed[at].Add(t.tenants[i].Guarantee)
			if t.tenants[at].Parent == "" {
				break
			}
			at = index[t.tenants[at].Parent]
		}
	}
	for i := range t.tenants {
		e := &t.tenants[i]
		if !guaranteed[i].Fits(e.Limit) {
			if !e.whole {
				t.problem(e.of, "limit: %s is below what is guaranteed to it and under it, %s, which holds; raise the limit or lower a guarantee",
					Equivalents(e.Limit), Equivalents(guaranteed[i]))
			}
			e.Limit = e.Limit.Max(guaranteed[i])
		}
	}
}
