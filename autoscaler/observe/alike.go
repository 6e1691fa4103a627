package observe

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// maxAlike bounds the distinct specs that are interned. Beyond it all are dropped; pods that come
// later share with each other only.
const maxAlike = 1024

// alike interns pod specs. After TrimPods, pods of one template differ only in their node, which a
// DaemonSet's pods have in their affinity too, and in their claims, of which each pod of a StatefulSet
// has its own. Resource lists, one per pod, were a seventh of the
// program's heap. It is safe for concurrent use.
type alike struct {
	mu    sync.Mutex
	specs map[string]*corev1.PodSpec // by serialized spec
}

// of returns the interned copy of s. Its pointers are shared, with s too, and must not be written
// to.
func (a *alike) of(s corev1.PodSpec) corev1.PodSpec {
	node, affinity, volumes := same(s.NodeName), s.Affinity, s.Volumes
	s.NodeName, s.Affinity = "", nil
	claims := slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	if claims {
		s.Volumes = nil
	}
	key, err := s.Marshal() // every field, also of later API versions; map keys sorted
	if err != nil {
		s.NodeName, s.Affinity, s.Volumes = node, affinity, volumes
		return s
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
	out.NodeName, out.Affinity = node, affinity
	if claims {
		out.Volumes = volumes
	}
	return out
}
