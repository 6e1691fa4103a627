package ledger

import (
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Share is the share of a tenant and all under it, in GPU equivalents. Without Limited, Limit is
// not set.
type Share struct {
	Tenant                                    string
	Guaranteed, Used, Borrowed, Lent, Pending float64
	Limit                                     float64
	Limited                                   bool
}

// Shares returns the share of every tenant of a snapshot, in its order.
func Shares(s *plan.Snapshot) []Share {
	use := usesOf(s)
	out := make([]Share, 0, len(s.Tenants))
	for i := range s.Tenants {
		t := &s.Tenants[i]
		u := use.under(t.Name)
		one := Share{Tenant: t.Name, Guaranteed: equivalents(u.guaranteed), Used: equivalents(u.used), Borrowed: equivalents(u.borrowed), Lent: equivalents(u.lent), Pending: equivalents(u.waiting)}
		if t.Limit.Compute != quota.Unlimited || t.Limit.Memory != quota.Unlimited {
			one.Limit, one.Limited = bound(t.Limit), true
		}
		out = append(out, one)
	}
	return out
}

// equivalents converts an amount used or guaranteed: the larger of its shares.
func equivalents(a quota.Amount) float64 {
	return max(float64(a.Compute)/computeSlices, float64(a.Memory)/memorySlices)
}

// bound converts a limit: the smaller of its shares, since either can run out first.
func bound(a quota.Amount) float64 {
	return min(float64(a.Compute)/computeSlices, float64(a.Memory)/memorySlices)
}
