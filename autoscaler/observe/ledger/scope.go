package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// effective returns a pod's requests and limits as the scheduler and ResourceQuotas count them:
// containers, init containers, sidecars and overhead combined.
func effective(spec *corev1.PodSpec) (requests, limits corev1.ResourceList) {
	p := &corev1.Pod{Spec: *spec}
	return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}), resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
}

// inScope reports whether a ResourceQuota covers a pod: all of its scopes must match.
func inScope(q *corev1.ResourceQuota, spec *corev1.PodSpec) bool {
	for _, scope := range q.Spec.Scopes {
		if !matches(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}, spec) {
			return false
		}
	}
	if q.Spec.ScopeSelector == nil {
		return true
	}
	return !slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions, func(r corev1.ScopedResourceSelectorRequirement) bool {
		return !matches(r, spec)
	})
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
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if q := list[corev1.ResourceCPU]; !q.IsZero() {
				return true
			}
			if q := list[corev1.ResourceMemory]; !q.IsZero() {
				return true
			}
		}
		return false
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
	crosses := func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }
	weighted := func(w corev1.WeightedPodAffinityTerm) bool { return crosses(w.PodAffinityTerm) }
	switch {
	case a == nil:
		return false
	case a.PodAffinity != nil && (slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, weighted)):
		return true
	}
	return a.PodAntiAffinity != nil && (slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, weighted))
}
