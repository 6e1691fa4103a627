package plan

import (
	"testing"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"pgregory.net/rapid"
)

// TestChargeIsConserved charges pending pods and discharges them, in any order:
// no charge exceeds a limit of the tenant or of one above it, and in the end
// every tenant uses what it used before.
func TestChargeIsConserved(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(smallWorld(t, r), DefaultPolicy())
		if w.treeErr != nil {
			return
		}
		used := func() (all []quota.Amount) {
			for _, tenant := range w.tenants {
				all = append(all, w.tree.Used(tenant.Name), w.tree.Total(tenant.Name), w.tree.Borrowed(tenant.Name))
			}
			return all
		}
		before := used()
		order := rapid.Permutation(indices(len(w.pending))).Draw(r, "charged")
		for _, i := range order {
			now := w.tree
			if !w.charge(&w.pending[i]) {
				continue
			}
			for _, tenant := range w.tenants {
				a, b := now.Total(tenant.Name), w.tree.Total(tenant.Name)
				if a != b && !b.Fits(tenant.Limit) {
					r.Fatalf("%s takes %s of %s for %s", tenant.Name, b, tenant.Limit, w.pending[i].pod.Key())
				}
			}
		}
		for _, i := range rapid.Permutation(order).Draw(r, "discharged") {
			w.discharge(&w.pending[i])
			w.discharge(&w.pending[i]) // it was charged once
		}
		for i, a := range used() {
			if a != before[i] {
				r.Fatalf("tenant %s: %s before, %s after", w.tenants[i/3].Name, before[i], a)
			}
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
