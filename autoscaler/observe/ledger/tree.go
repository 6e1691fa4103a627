package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Slices of a card, by which quotas are counted whatever the card.
const (
	computeSlices = 7
	memorySlices  = 8
)

// cards is a number of GPU equivalents in slices. A part of a slice is none.
func cards(n float64) quota.Amount {
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

// Equivalents is an amount in GPU equivalents, "∞" for no bound: the larger of its
// shares of compute and memory.
func Equivalents(a quota.Amount) string {
	if a.Compute == quota.Unlimited || a.Memory == quota.Unlimited {
		return "∞"
	}
	n := max(float64(a.Compute)/computeSlices, float64(a.Memory)/memorySlices)
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", n), "0"), ".")
}

// tree is tenants that may still be wrong.
type tree struct {
	tenants  []entry
	problems map[string]error
}

// entry is a tenant and the object that said so ("GPUQuota team-a").
type entry struct {
	plan.Tenant
	of string
	// whole: what it is guaranteed includes what its children are.
	whole bool
}

func (t *tree) problem(of, format string, args ...any) {
	if t.problems[of] == nil {
		t.problems[of] = fmt.Errorf(format, args...)
	}
}

// build returns tenants of which a tree can be made: what stands in the way is a
// problem of the object that said it, and is left out of what it said.
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
			t.problem(e.of, "spec.parent: there is no %q: it stands alone, and neither lends nor borrows; create it or correct the name", e.Parent)
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

// breakCircles lets everybody in a circle stand alone.
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
				t.problem(t.tenants[i].of, "spec.parent: a circle, %s: each of these stands alone; take the parent off one of them", strings.Join(path, " → "))
				break
			}
		}
	}
	for _, i := range inCircle {
		t.tenants[i].Parent = ""
	}
}

// share takes from parents that count their children in what those are guaranteed.
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

// limit makes sure that no limit is below what is guaranteed under it.
func (t *tree) limit(index map[string]int) {
	guaranteed := make([]quota.Amount, len(t.tenants))
	for i := range t.tenants {
		// Up to the root: circles have been broken.
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
