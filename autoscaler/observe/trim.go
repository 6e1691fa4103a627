package observe

import (
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxKeptAnnotation is the longest annotation that is kept of others, in bytes: what
// decides anything is short, what tools note about themselves is not.
const maxKeptAnnotation = 1024

// TrimPods returns what is for the cache of pods: it takes out what no decision depends
// on, which is most of a pod, and keeps once what thousands of them say alike. What is
// left is shared by pods, so a pod must neither be written to nor written back.
func TrimPods() func(any) (any, error) {
	specs := &alike{}
	return func(o any) (any, error) {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return o, nil
		}
		trimMeta(&p.ObjectMeta)
		p.Spec = specs.of(trimSpec(p.Spec))
		trimPodStatus(&p.Status)
		return p, nil
	}
}

// trimSpec leaves the lists alone that it is given: they may be another pod's, too.
func trimSpec(s corev1.PodSpec) corev1.PodSpec {
	s.InitContainers, s.Containers = trimContainers(s.InitContainers), trimContainers(s.Containers)
	s.EphemeralContainers = nil // they request nothing
	s.Volumes, s.ImagePullSecrets, s.HostAliases, s.DNSConfig, s.SecurityContext, s.ReadinessGates = nil, nil, nil, nil, nil, nil
	s.Hostname = "" // each pod of a StatefulSet or of an indexed Job has another
	return s
}

func trimPodStatus(st *corev1.PodStatus) {
	for i := range st.Conditions {
		c := &st.Conditions[i]
		c.Type, c.Status, c.Reason, c.Message = same(c.Type), same(c.Status), same(c.Reason), ""
	}
	st.Message, st.HostIP, st.HostIPs, st.PodIP, st.PodIPs, st.EphemeralContainerStatuses = "", "", nil, "", nil, nil
	st.InitContainerStatuses, st.ContainerStatuses = trimStatuses(st.InitContainerStatuses), trimStatuses(st.ContainerStatuses)
}

// trimContainers keeps what says how much they want, and when.
func trimContainers(all []corev1.Container) []corev1.Container {
	if len(all) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(all))
	for i := range all {
		c := &all[i]
		out[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return out
}

// trimStatuses keeps what a resize in place goes by; of most there is nothing.
func trimStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	any := false
	for i := range all {
		c := &all[i]
		any = any || c.Resources != nil || c.AllocatedResources != nil
		all[i] = corev1.ContainerStatus{Name: same(c.Name), Resources: c.Resources, AllocatedResources: c.AllocatedResources, State: stateOf(c.State)}
	}
	if !any {
		return nil
	}
	return all
}

// stateOf keeps which of the states it is.
func stateOf(s corev1.ContainerState) corev1.ContainerState {
	switch {
	case s.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case s.Terminated != nil:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	return corev1.ContainerState{}
}

// TrimNode is for the cache of nodes, as TrimPods for that of pods: the list of images
// alone is longer than all that is asked of a node.
func TrimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	trimMeta(&n.ObjectMeta)
	st := &n.Status
	st.Images, st.VolumesInUse, st.VolumesAttached, st.Addresses, st.Features = nil, nil, nil, nil, nil
	st.Capacity, st.Allocatable = nil, onceKeyed(st.Allocatable)
	for i := range st.Conditions {
		c := &st.Conditions[i]
		c.Type, c.Status, c.Reason, c.Message = same(c.Type), same(c.Status), same(c.Reason), ""
	}
	return n, nil
}

// trimMeta keeps our own annotations whatever their length.
func trimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	m.Namespace = same(m.Namespace)
	m.GenerateName = ""
	m.Labels = once(m.Labels)
	for key, value := range m.Annotations {
		if len(value) > maxKeptAnnotation && !strings.HasPrefix(key, "gpuscale.io/") {
			delete(m.Annotations, key)
		}
	}
	for i := range m.OwnerReferences {
		r := &m.OwnerReferences[i]
		r.APIVersion, r.Kind, r.Name, r.UID = same(r.APIVersion), same(r.Kind), same(r.Name), same(r.UID)
	}
}

// same returns the one copy of a string that is kept for all who say it.
func same[S ~string](s S) S {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

// once has a map's keys and values kept once.
func once(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[same(key)] = same(value)
	}
	return out
}

// onceKeyed has a list's names kept once.
func onceKeyed(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return list
	}
	out := make(corev1.ResourceList, len(list))
	for name, q := range list {
		out[same(name)] = q
	}
	return out
}
