package observe

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// maxKeptAnnotation is the length in bytes of the longest foreign annotation that is kept:
// annotations that decide anything are short, tools' own records are not.
const maxKeptAnnotation = 1024

// maxRegister is the same for annotations in which a dialect lists the GPUs of a node, about 200 bytes for each.
const maxRegister = 16 << 10

// TrimPods returns a transform for the cache of pods: it removes the fields that no decision
// depends on, which is most of a pod, and interns what thousands of pods share. The result is
// shared between pods, so a pod must neither be written to nor written back.
func TrimPods() func(any) (any, error) {
	specs := &alike{}
	return func(o any) (any, error) {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return o, nil
		}
		trimMeta(&p.ObjectMeta, maxKeptAnnotation)
		p.Spec = specs.of(foreign.SlimSpec(&p.Spec, v1alpha1.IsLocal))
		trimPodStatus(&p.Status)
		return p, nil
	}
}

func trimPodStatus(st *corev1.PodStatus) {
	for i := range st.Conditions {
		c := &st.Conditions[i]
		c.Type, c.Status, c.Reason, c.Message = same(c.Type), same(c.Status), same(c.Reason), ""
	}
	st.Message, st.HostIP, st.HostIPs, st.PodIP, st.PodIPs, st.EphemeralContainerStatuses = "", "", nil, "", nil, nil
	st.InitContainerStatuses, st.ContainerStatuses = trimStatuses(st.InitContainerStatuses), trimStatuses(st.ContainerStatuses)
}

// trimStatuses keeps the fields of an in-place resize; most pods have none.
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

// stateOf keeps only which state it is.
func stateOf(s corev1.ContainerState) corev1.ContainerState {
	switch {
	case s.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case s.Terminated != nil:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	return corev1.ContainerState{}
}

// TrimNode is the transform for the cache of nodes, as TrimPods for pods: the list of images alone
// is longer than all fields that are read.
func TrimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	trimMeta(&n.ObjectMeta, math.MaxInt)
	st := &n.Status
	st.Images, st.VolumesInUse, st.VolumesAttached, st.Addresses, st.Features = nil, nil, nil, nil, nil
	maps.DeleteFunc(st.Capacity, func(name corev1.ResourceName, _ resource.Quantity) bool { return !strings.Contains(string(name), "/") })
	st.Capacity, st.Allocatable = once(st.Capacity), once(st.Allocatable)
	for i := range st.Conditions {
		c := &st.Conditions[i]
		c.Type, c.Status, c.Reason, c.Message = same(c.Type), same(c.Status), same(c.Reason), ""
	}
	return n, nil
}

// TrimVolume is the transform for the caches of PersistentVolumes and their claims: it removes what
// no decision depends on.
func TrimVolume(o any) (any, error) {
	switch v := o.(type) {
	case *corev1.PersistentVolume:
		trimMeta(&v.ObjectMeta, 0)
		v.Annotations = ofVolumes(v.Annotations)
		csi := v.Spec.CSI
		v.Spec.PersistentVolumeSource, v.Status.Message = corev1.PersistentVolumeSource{}, ""
		if csi != nil {
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: same(csi.Driver)}
		}
	case *corev1.PersistentVolumeClaim:
		trimMeta(&v.ObjectMeta, 0)
		v.Annotations = ofVolumes(v.Annotations)
		v.Labels, v.Status = nil, corev1.PersistentVolumeClaimStatus{Phase: same(v.Status.Phase)}
	}
	return o, nil
}

// ofVolumes keeps the annotations that older objects have for their class, and claims for their node.
func ofVolumes(annotations map[string]string) map[string]string {
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return key != corev1.BetaStorageClassAnnotation && key != volume.AnnSelectedNode
	})
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// trimMeta removes what no decision depends on. Of gpuscale's own annotations it keeps the first own bytes, of others
// the short ones, and lists of GPUs up to maxRegister.
func trimMeta(m *metav1.ObjectMeta, own int) {
	m.ManagedFields = nil
	m.Namespace = same(m.Namespace)
	m.GenerateName = ""
	m.Labels = once(m.Labels)
	for key, value := range m.Annotations {
		switch ours := strings.HasPrefix(key, "gpuscale.io/"); {
		case ours && len(value) > own:
			m.Annotations[key] = strings.Clone(value[:own]) // an invalid time does not become a valid one
		case !ours && len(value) > maxKeptAnnotation && (len(value) > maxRegister || !demand.Registers(key)):
			delete(m.Annotations, key)
		}
	}
	for i := range m.OwnerReferences {
		r := &m.OwnerReferences[i]
		r.APIVersion, r.Kind, r.Name, r.UID = same(r.APIVersion), same(r.Kind), same(r.Name), same(r.UID)
	}
}

// same returns the interned copy of a string.
func same[S ~string](s S) S {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

// once interns a map's keys, and its values if they are strings.
func once[K ~string, V any](m map[K]V) map[K]V {
	if len(m) == 0 {
		return m
	}
	out := make(map[K]V, len(m))
	for key, value := range m {
		if s, ok := any(&value).(*string); ok {
			*s = same(*s)
		}
		out[same(key)] = value
	}
	return out
}

// maxAlike bounds the distinct specs that are interned. Beyond it all are dropped; pods that come
// later share with each other only.
const maxAlike = 1024

// alike interns pod specs. After TrimPods, pods of one template differ in two things only: in their node, which pods of
// a DaemonSet also have in their affinity, and in their volume claims, which each pod of a StatefulSet has for itself.
// Without interning, the resource lists of all pods were a seventh of the program's heap. It is safe for concurrent
// use.
type alike struct {
	mu    sync.Mutex
	specs map[string]*corev1.PodSpec // by serialized spec
}

// of returns the interned copy of s. Its pointers are shared, with s too, and must not be written
// to.
func (a *alike) of(s corev1.PodSpec) corev1.PodSpec {
	own := s
	s.NodeName, s.Affinity = "", nil
	if slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		s.Volumes = nil
	}
	key, err := s.Marshal() // map keys sorted
	if err != nil {
		return own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.specs[string(key)]
	if kept == nil {
		if a.specs == nil || len(a.specs) >= maxAlike {
			a.specs = map[string]*corev1.PodSpec{}
		}
		kept = &s
		a.specs[string(key)] = kept
	}
	out := *kept
	out.NodeName, out.Affinity = same(own.NodeName), own.Affinity
	if out.Volumes == nil {
		out.Volumes = own.Volumes
	}
	return out
}
