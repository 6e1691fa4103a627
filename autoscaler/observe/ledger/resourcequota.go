package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// resourceQuota is a ResourceQuota.
type resourceQuota struct {
	*corev1.ResourceQuota
	// tenant is the name of its tenant. It is empty where the quota bounds no GPUs, or only those of some pods.
	tenant string
	// names are the GPU resources that it bounds, vendors those whose whole GPUs are among them.
	names, vendors map[string]bool
	// left is the free capacity. A resource that the quota bounds and has not counted yet has no entry: until it is
	// counted, no pod that requests it is created.
	left corev1.ResourceList
}

// sharedResource is what NVIDIA's device plugin offers for GPUs that it shares with renameByDefault.
const sharedResource = "nvidia.com/gpu.shared"

// namespacePrefix of tenants that are ResourceQuotas.
const namespacePrefix = "resourcequota/"

// addResourceQuotas adds the ResourceQuotas. The API server refuses pods beyond them, so only pods
// that are still to be created can exceed them; see Refuse. For pods under no other quota a
// ResourceQuota is a tenant too: all of it is guaranteed, and nothing is lent or borrowed.
func (l *Ledger) addResourceQuotas(quotas []corev1.ResourceQuota) {
	order := slices.SortedFunc(slices.Values(quotas), func(a, b corev1.ResourceQuota) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for i := range order {
		q := &resourceQuota{ResourceQuota: &order[i], names: map[string]bool{}, vendors: map[string]bool{}, left: corev1.ResourceList{}}
		if q.DeletionTimestamp != nil {
			continue
		}
		l.quotas[q.Namespace] = append(l.quotas[q.Namespace], q)
		var all quota.Amount
		for name, hard := range q.Spec.Hard {
			left, isHard := q.Status.Hard[name]
			if used, isUsed := q.Status.Used[name]; isHard && isUsed {
				left = left.DeepCopy()
				left.Sub(used)
				q.left[name] = left
			}
			plain, isRequest := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
			one, isGPU := l.units.perUnit(plain)
			if !isRequest || !isGPU {
				continue
			}
			q.names[plain] = true
			if d, err := demand.FromResources(map[string]int64{plain: 1}); err == nil && d.GPUs == 1 {
				q.vendors[d.Vendor] = true
			}
			all = all.Add(times(one, ptr.To(hard.AsApproximateFloat64()), quota.Amount{}))
		}
		if of := q.Namespace + "/" + q.Name; len(q.names) > 0 && len(q.Spec.Scopes) == 0 && q.Spec.ScopeSelector == nil {
			q.tenant = namespacePrefix + of
			l.add("ResourceQuota "+of, quota.Tenant{Name: q.tenant, Guarantee: all, Limit: all}, false)
		}
	}
}

// ofNamespace returns the first ResourceQuota that bounds everything the pod requests.
func (l *Ledger) ofNamespace(p *gangs.Pod) string {
	for _, q := range l.quotas[p.Namespace] {
		if q.tenant != "" && q.bounds(p.Plan) {
			return q.tenant
		}
	}
	return ""
}

func (q *resourceQuota) bounds(p *plan.Pod) bool {
	d := p.Demand
	shares := func(r plan.Resource) bool { return r.Name == sharedResource && r.Amount > 0 }
	if d.Zero() || d.Fraction != nil && !(q.names[sharedResource] && slices.ContainsFunc(p.Others, shares)) {
		return false
	}
	for _, in := range d.MIG {
		if !q.names[mig.ResourceName(in.Name)] {
			return false
		}
	}
	return d.GPUs == 0 || q.vendors[d.Vendor]
}

// inScope reports whether a ResourceQuota covers a pod: all of its scopes must match.
func inScope(q *corev1.ResourceQuota, spec *corev1.PodSpec) bool {
	all := slices.Clone(ptr.Deref(q.Spec.ScopeSelector, corev1.ScopeSelector{}).MatchExpressions)
	for _, scope := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	return !slices.ContainsFunc(all, func(r corev1.ScopedResourceSelectorRequirement) bool { return !matches(r, spec) })
}

// matches reports whether a pod is in a scope. An unknown scope, one that is not about pods, and that of affinity across
// namespaces match no pod.
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

// Refuse determines which of the pods still to be created the API server would refuse, because a
// ResourceQuota of their namespace has no free capacity. For each pod it returns the name of a
// tenant without free capacity, empty for a pod that would be created. Those tenants are added to
// Tenants. A second call continues with what the first one left.
//
// It is independent of Tenant: a ResourceQuota holds whichever other quota a pod counts towards.
// Existing pods are not asked about: a ResourceQuota counts a pod when it is created, and its
// status has the sum. They count as members of their gangs.
func (l *Ledger) Refuse(pods []gangs.Pod, exist []plan.Pod) []string {
	out := make([]string, len(pods))
	if len(l.quotas) == 0 {
		return out
	}
	members := map[string]int{} // that exist, by gang
	for i := range exist {
		members[exist[i].Gang]++
	}
	full := map[string]bool{}
	for _, unit := range unitsOf(pods) {
		before := map[*resourceQuota]corev1.ResourceList{} // what was left
		refused := ""
		made := 0
		for _, i := range unit {
			if out[i] = l.take(&pods[i], before); out[i] == "" {
				made++
			} else {
				refused = cmp.Or(refused, out[i])
			}
		}
		if first := pods[unit[0]].Plan; first.Gang != "" && made < min(max(first.GangMin-members[first.Gang], 1), len(unit)) {
			for q, left := range before { // all or nothing: what the first pods took is released
				q.left = left
			}
			for _, i := range unit {
				out[i] = refused
			}
		}
		for _, i := range unit {
			full[out[i]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(full)) { // without any capacity
		if name != "" && !l.names[name] {
			l.names[name] = true
			l.Tenants = append(l.Tenants, plan.Tenant{Tenant: quota.Tenant{Name: name}})
		}
	}
	return out
}

// unitsOf groups the pods that are created together, by position: gangs, and single pods.
func unitsOf(pods []gangs.Pod) [][]int {
	var out [][]int
	at := map[string]int{}
	for i := range pods {
		key := pods[i].Plan.Gang
		if key == "" {
			out = append(out, []int{i})
			continue
		}
		if _, known := at[key]; !known {
			at[key], out = len(out), append(out, nil)
		}
		out[at[key]] = append(out[at[key]], i)
	}
	return out
}

// take subtracts a pod's usage from all quotas over it. If one of them lacks capacity it subtracts nothing, and returns
// the name of a tenant made of that quota's name and the resource's. before records the former amounts.
func (l *Ledger) take(p *gangs.Pod, before map[*resourceQuota]corev1.ResourceList) string {
	var over []*resourceQuota
	usage := l.usageOf(&p.Spec)
	for _, q := range l.quotas[p.Namespace] {
		if !inScope(q.ResourceQuota, &p.Spec) {
			continue
		}
		if name := q.lacks(usage, &p.Spec); name != "" {
			return namespacePrefix + q.Namespace + "/" + q.Name + "/no-more/" + string(name)
		}
		over = append(over, q)
	}
	for _, q := range over {
		if _, noted := before[q]; !noted {
			before[q] = q.left
		}
		q.left = maps.Clone(q.left)
		for name, left := range q.left {
			left.Sub(usage[name])
			q.left[name] = left
		}
	}
	return ""
}

// lacks returns the first resource, by name, of which there is too little.
func (q *resourceQuota) lacks(usage corev1.ResourceList, spec *corev1.PodSpec) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		if slices.Contains(stated, name) && !says(spec, name) {
			return name
		}
		wants, ok := usage[name]
		if !ok || wants.Sign() <= 0 {
			continue
		}
		if left, counted := q.left[name]; !counted || left.Cmp(wants) < 0 {
			return name
		}
	}
	return ""
}

// stated are the resources that every container must state if a quota bounds them.
var stated = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

func says(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	plain, limit := strings.CutPrefix(string(name), "limits.")
	plain = plainName(plain)
	in := func(r *corev1.ResourceRequirements) bool {
		list := r.Requests
		if limit {
			list = r.Limits
		}
		_, ok := list[corev1.ResourceName(plain)]
		return ok
	}
	if spec.Resources != nil && in(spec.Resources) {
		return true
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if !in(&containers[i].Resources) {
				return false
			}
		}
	}
	return true
}

// usageOf returns what a ResourceQuota counts for a pod.
func (l *Ledger) usageOf(spec *corev1.PodSpec) corev1.ResourceList {
	if known, ok := l.usages[spec]; ok {
		return known
	}
	one := *resource.NewQuantity(1, resource.DecimalSI)
	out := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	p := &corev1.Pod{Spec: *spec} // containers, init containers, sidecars and overhead combined, as the scheduler does
	for name, q := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		out[corev1.DefaultResourceRequestsPrefix+name] = q
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			out[name] = q
		}
	}
	for name, q := range resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{}) {
		out["limits."+name] = q
	}
	l.usages[spec] = out
	return out
}
