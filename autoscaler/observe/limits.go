package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// WithDefaults returns the spec of a pod as the API server would create it in a namespace with
// these LimitRanges, as far as requests and limits go. It serves pods that exist only as a
// template; existing pods have passed admission. The order is the API server's: missing requests
// are the limits, then come the LimitRanges' defaults for containers, then pod-level requests. The
// given spec is not written to; of several LimitRanges the first by name wins.
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
			fill(&r.Requests, r.Limits) // again, as when the API server reads it back
		}
	}
	podLevelDefaults(&p)
	return p.Spec
}

// containerDefaults fills in the defaults of a LimitRange, the last item first. A default request
// that follows from a default limit was filled in when the LimitRange was created.
func containerDefaults(r *corev1.ResourceRequirements, of *corev1.LimitRange) {
	for _, item := range slices.Backward(of.Spec.Limits) {
		if item.Type == corev1.LimitTypeContainer {
			fill(&r.Limits, item.Default)
			fill(&r.Requests, item.DefaultRequest)
		}
	}
}

// podLevelDefaults derives the requests of a pod that has pod-level limits: the sum of its
// containers' requests, else the limits.
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

// fill adds entries that are missing in list.
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
