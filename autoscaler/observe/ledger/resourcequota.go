package ledger

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// limits are the GPU resources of a ResourceQuota.
type limits struct {
	tenant string
	// names of the resources it bounds.
	names map[string]bool
}

// sharedResource is what NVIDIA's device plugin offers for GPUs that it shares with renameByDefault.
const sharedResource = "nvidia.com/gpu.shared"

// namespacePrefix of tenants that are ResourceQuotas.
const namespacePrefix = "resourcequota/"

// addResourceQuotas adds the ResourceQuotas. The API server refuses pods beyond them, so only pods
// that are still to be created can exceed them; see Refuse. For pods under no other quota a
// ResourceQuota is a tenant too: all of it is guaranteed, and nothing is lent or borrowed.
func (l *Ledger) addResourceQuotas(t *tree, quotas []corev1.ResourceQuota) {
	order := slices.SortedFunc(slices.Values(quotas), func(a, b corev1.ResourceQuota) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for i := range order {
		q := &order[i]
		if q.DeletionTimestamp != nil {
			continue
		}
		l.headrooms[q.Namespace] = append(l.headrooms[q.Namespace], newHeadroom(q))
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue // it covers some pods only, so it is no tenant; Refuse checks its scopes
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
			s.guarantee = s.guarantee.Add(times(one, ptr.To(hard.AsApproximateFloat64()), quota.Amount{}))
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

// ofNamespace returns the first ResourceQuota that bounds everything the claim requests.
func (l *Ledger) ofNamespace(c Claim) string {
	for _, r := range l.listed[c.Namespace] {
		if r.bounds(c) {
			return r.tenant
		}
	}
	return ""
}

func (r *limits) bounds(c Claim) bool {
	d := c.Demand
	if d.Zero() || d.Fraction != nil && !(c.Shares && r.names[sharedResource]) {
		return false
	}
	for _, in := range d.MIG {
		if !r.names[mig.ResourceName(in.Name)] {
			return false
		}
	}
	if d.GPUs == 0 {
		return true
	}
	for name := range r.names {
		one, err := demand.FromResources(map[string]int64{name: 1})
		if err == nil && one.GPUs == 1 && one.Vendor == d.Vendor {
			return true
		}
	}
	return false
}

// inScope reports whether a ResourceQuota covers a pod: all of its scopes must match.
func inScope(q *corev1.ResourceQuota, spec *corev1.PodSpec) bool {
	all := slices.Clone(ptr.Deref(q.Spec.ScopeSelector, corev1.ScopeSelector{}).MatchExpressions)
	for _, scope := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	return !slices.ContainsFunc(all, func(r corev1.ScopedResourceSelectorRequirement) bool { return !matches(r, spec) })
}

// matches reports whether a pod is in a scope. An unknown scope, or one that is not about pods,
// matches no pod.
func matches(r corev1.ScopedResourceSelectorRequirement, spec *corev1.PodSpec) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(spec)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(spec)
	case corev1.ResourceQuotaScopePriorityClass:
		return ofClass(r, spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(spec.Affinity)
	}
	return false
}

func ofClass(r corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch r.Operator {
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(r.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(r.Values, class)
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	}
	return false
}

// bestEffort reports whether the pod states neither CPU nor memory. GPUs do not count.
func bestEffort(spec *corev1.PodSpec) bool {
	asks := func(r *corev1.ResourceRequirements) bool {
		return slices.ContainsFunc([]corev1.ResourceList{r.Requests, r.Limits}, func(list corev1.ResourceList) bool {
			return !list.Cpu().IsZero() || !list.Memory().IsZero()
		})
	}
	if spec.Resources != nil && asks(spec.Resources) {
		return false
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		if slices.ContainsFunc(containers, func(c corev1.Container) bool { return asks(&c.Resources) }) {
			return false
		}
	}
	return true
}

// crossesNamespaces reports whether a pod's affinity rule names or selects namespaces.
func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	near, apart := ptr.Deref(a.PodAffinity, corev1.PodAffinity{}), ptr.Deref(a.PodAntiAffinity, corev1.PodAntiAffinity{})
	terms := slices.Concat(near.RequiredDuringSchedulingIgnoredDuringExecution, apart.RequiredDuringSchedulingIgnoredDuringExecution)
	for _, w := range slices.Concat(near.PreferredDuringSchedulingIgnoredDuringExecution, apart.PreferredDuringSchedulingIgnoredDuringExecution) {
		terms = append(terms, w.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
