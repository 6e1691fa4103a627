package ledger

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Made is a pod that is still to be made.
type Made struct {
	Namespace string
	// Spec as the API server would see it, with the namespace's defaults.
	Spec *corev1.PodSpec
	// Gang it is of, empty for none. Least of the gang's pods that are still to be
	// made must be, or those that are would be of no use.
	Gang  string
	Least int
}

// Refuse says which of the pods that are still to be made the API server would
// refuse, because a ResourceQuota of their namespace has no room left: for each the
// name of a tenant that has none, empty for a pod that would be made. The tenants
// are added to Tenants. A second call goes on with what the first one left.
//
// This is asked beside Tenant, so that a ResourceQuota holds whatever other quota a
// pod counts towards. Pods that exist are not asked for: a ResourceQuota counts a
// pod when it is made, and its status says how many there are.
func (l *Ledger) Refuse(pods []Made) []string {
	out := make([]string, len(pods))
	if len(l.rooms) == 0 {
		return out
	}
	full := map[string]bool{}
	for _, unit := range unitsOf(pods) {
		taken := map[*room]corev1.ResourceList{}
		made := 0
		for _, i := range unit {
			if out[i] = l.take(&pods[i], taken); out[i] == "" {
				made++
			}
		}
		if first := &pods[unit[0]]; first.Gang != "" && made < min(max(first.Least, 1), len(unit)) {
			for r, left := range taken { // all or nothing: what the first took is given back
				r.left = left
			}
			at := slices.IndexFunc(unit, func(i int) bool { return out[i] != "" })
			for _, i := range unit {
				out[i] = out[unit[at]]
			}
		}
		for _, i := range unit {
			full[out[i]] = true
		}
	}
	l.addFull(full)
	return out
}

// unitsOf are the pods that are made together, by position: gangs, and single pods.
func unitsOf(pods []Made) [][]int {
	var out [][]int
	at := map[string]int{}
	for i := range pods {
		if pods[i].Gang == "" {
			out = append(out, []int{i})
			continue
		}
		key := pods[i].Namespace + "/" + pods[i].Gang
		if _, known := at[key]; !known {
			at[key], out = len(out), append(out, nil)
		}
		out[at[key]] = append(out[at[key]], i)
	}
	return out
}

// addFull adds a tenant with room for nothing under each of the names.
func (l *Ledger) addFull(names map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != "" && !l.names[name] {
			l.names[name] = true
			l.Tenants = append(l.Tenants, plan.Tenant{Tenant: quota.Tenant{Name: name}})
		}
	}
}

// room is what a ResourceQuota leaves.
type room struct {
	quota *corev1.ResourceQuota
	// left is not there for what it bounds and has not counted yet: nothing that wants
	// that is made until it has.
	left corev1.ResourceList
}

func newRoom(q *corev1.ResourceQuota) *room {
	r := &room{quota: q, left: corev1.ResourceList{}}
	for name := range q.Spec.Hard {
		hard, isHard := q.Status.Hard[name]
		used, isUsed := q.Status.Used[name]
		if isHard && isUsed {
			left := hard.DeepCopy()
			left.Sub(used)
			r.left[name] = left
		}
	}
	return r
}

// take takes a pod's usage out of all the quotas over it, or none of it: then it
// names the one that has too little, and of what. Before notes what there was.
func (l *Ledger) take(p *Made, before map[*room]corev1.ResourceList) string {
	var over []*room
	usage := l.usageOf(p.Spec)
	for _, r := range l.rooms[p.Namespace] {
		if !inScope(r.quota, p.Spec) {
			continue
		}
		if name := r.lacks(usage, p.Spec); name != "" {
			return noMore(r.quota, name)
		}
		over = append(over, r)
	}
	for _, r := range over {
		if _, noted := before[r]; !noted {
			before[r] = r.left
		}
		left := maps.Clone(r.left)
		for name, q := range left {
			if wants, ok := usage[name]; ok {
				q.Sub(wants)
				left[name] = q
			}
		}
		r.left = left
	}
	return ""
}

// noMore is the tenant of those whom a quota has no more of a resource for.
func noMore(q *corev1.ResourceQuota, name corev1.ResourceName) string {
	return namespacePrefix + q.Namespace + "/" + q.Name + "/no-more/" + string(name)
}

// lacks is the first resource of which there is too little, by name.
func (r *room) lacks(usage corev1.ResourceList, spec *corev1.PodSpec) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(r.quota.Spec.Hard)) {
		if mustSay(name) && !says(spec, name) {
			return name
		}
		wants, ok := usage[name]
		if !ok || wants.Sign() <= 0 {
			continue
		}
		if left, counted := r.left[name]; !counted || left.Cmp(wants) < 0 {
			return name
		}
	}
	return ""
}

// mustSay: under a quota of one of these, every container has to say how much of it
// it wants.
func mustSay(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
		return true
	}
	return false
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

// usageOf is what a ResourceQuota counts for a pod.
func (l *Ledger) usageOf(spec *corev1.PodSpec) corev1.ResourceList {
	if known, ok := l.usages[spec]; ok {
		return known
	}
	one := *resource.NewQuantity(1, resource.DecimalSI)
	out := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	requests, limits := effective(spec)
	for name, q := range requests {
		out[corev1.DefaultResourceRequestsPrefix+name] = q
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			out[name] = q
		}
	}
	for name, q := range limits {
		out["limits."+name] = q
	}
	l.usages[spec] = out
	return out
}
