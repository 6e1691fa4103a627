package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// WithDefaults returns the spec of a pod as the API server would create it in a
// namespace with these LimitRanges, as far as requests and limits go: for pods
// that do not exist yet, known from a template. Pods that exist have been through
// it. The order is the API server's: requests that are not stated are the limits,
// then come the LimitRanges' defaults for containers, then pod-level requests. The
// spec given is not written to; of several LimitRanges the first by name wins.
func WithDefaults(spec *corev1.PodSpec, ranges []corev1.LimitRange) corev1.PodSpec {
	p := corev1.Pod{Spec: *spec.DeepCopy()}
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			fill(&r.Requests, r.Limits)
			for j := range ranges {
				containerDefaults(r, &ranges[j])
			}
			fill(&r.Requests, r.Limits) // again when it is read back
		}
	}
	podLevelDefaults(&p)
	return p.Spec
}

// containerDefaults gives a container what a LimitRange says for those that do not
// say themselves, the last item of it first. A default request that follows from a
// default limit has been filled in when the LimitRange was made.
func containerDefaults(r *corev1.ResourceRequirements, of *corev1.LimitRange) {
	for _, item := range slices.Backward(of.Spec.Limits) {
		if item.Type == corev1.LimitTypeContainer {
			fill(&r.Limits, item.Default)
			fill(&r.Requests, item.DefaultRequest)
		}
	}
}

// podLevelDefaults gives a pod that has limits of its own the requests that follow:
// what its containers request together, else the limits.
func podLevelDefaults(p *corev1.Pod) {
	if p.Spec.Resources == nil || len(p.Spec.Resources.Limits) == 0 {
		return
	}
	own := p.Spec.Resources
	for name, q := range resource.AggregateContainerRequests(p, resource.PodResourcesOptions{}) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			fill(&own.Requests, corev1.ResourceList{name: q})
		}
	}
	for name, q := range own.Limits {
		if resource.IsSupportedPodLevelResource(name) {
			fill(&own.Requests, corev1.ResourceList{name: q})
		}
	}
}

// fill adds to a list what it lacks of others.
func fill(list *corev1.ResourceList, others corev1.ResourceList) {
	for name, q := range others {
		if _, stated := (*list)[name]; stated {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
	}
}
