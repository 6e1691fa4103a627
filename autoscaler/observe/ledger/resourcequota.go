package ledger

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// limits is what a ResourceQuota says about GPUs.
type limits struct {
	tenant string
	// names of the resources it bounds; it says nothing about others.
	names map[string]bool
}

// namespacePrefix of tenants that are ResourceQuotas.
const namespacePrefix = "resourcequota/"

// addResourceQuotas: the API server refuses pods beyond them, so what is beyond is
// only seen where a pod is still to be made, and Refuse asks for those. For pods
// under no other quota one is a tenant, too: what it allows is guaranteed up to there,
// and neither lent nor borrowed.
func (l *Ledger) addResourceQuotas(t *tree, quotas []corev1.ResourceQuota) {
	order := slices.SortedFunc(slices.Values(quotas), func(a, b corev1.ResourceQuota) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for i := range order {
		q := &order[i]
		if q.DeletionTimestamp != nil {
			continue
		}
		l.rooms[q.Namespace] = append(l.rooms[q.Namespace], newRoom(q))
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue // over some pods only, so it is no tenant: Refuse looks which
		}
		name := namespacePrefix + q.Namespace + "/" + q.Name
		r := &limits{tenant: name, names: map[string]bool{}}
		var s sums
		for resource, hard := range q.Spec.Hard {
			plain, ok := strings.CutPrefix(string(resource), corev1.DefaultResourceRequestsPrefix)
			if !ok {
				continue
			}
			one, ok := l.units.perUnit(plain)
			if !ok {
				continue
			}
			r.names[plain] = true
			s.guarantee = s.guarantee.Add(times(one, &foreign.Amount{Number: hard.AsApproximateFloat64()}, quota.Amount{}))
		}
		if len(r.names) == 0 {
			continue
		}
		l.listed[q.Namespace] = append(l.listed[q.Namespace], r)
		t.tenants = append(t.tenants, entry{of: "ResourceQuota " + q.Namespace + "/" + q.Name, Tenant: plan.Tenant{Tenant: quota.Tenant{
			Name: name, Guarantee: s.guarantee, Limit: s.guarantee,
		}}})
	}
}

// ofNamespace is the first ResourceQuota that bounds everything the claim wants.
func (l *Ledger) ofNamespace(c Claim) string {
	for _, r := range l.listed[c.Namespace] {
		if r.bounds(c.Demand) {
			return r.tenant
		}
	}
	return ""
}

func (r *limits) bounds(d demand.Demand) bool {
	if d.Zero() || d.Fraction != nil {
		return false
	}
	for _, in := range d.MIG {
		if !r.names[mig.ResourceName(in.Name)] {
			return false
		}
	}
	if d.Cards == 0 {
		return true
	}
	for name := range r.names {
		one, err := demand.FromResources(map[string]int64{name: 1})
		if err == nil && one.Cards == 1 && one.Vendor == d.Vendor {
			return true
		}
	}
	return false
}
