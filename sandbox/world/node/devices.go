package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// wholeGPU is the resource name of GPUs that are not in MIG mode.
const wholeGPU = "nvidia.com/gpu"

// Pod is a bound pod, as the device manager sees it.
type Pod struct {
	Namespace, Name, UID string
	Created              time.Time
	Containers           []Container
}

// Container has the devices that a container requests, by resource.
type Container struct {
	Name     string
	Requests map[string]int
}

// Holding is one device that is allocated to a container.
type Holding struct {
	Namespace, Pod, UID, Container string
	Resource                       string
	ID                             string // as the device plugin gives it: "GPU-…" or "MIG-…"
	GPU                            int
	Instance                       int // GPU instance id; -1 for a whole GPU
}

// offer is a device that the plugin advertises.
type offer struct {
	id, resource  string
	dev, instance int
}

// offers lists all devices in the order in which they are allocated.
func (m *Machine) offers() []offer {
	var out []offer
	for _, c := range m.gpus {
		if !c.MIG {
			out = append(out, offer{c.UUID, wholeGPU, c.Index, -1})
			continue
		}
		for _, in := range c.Instances {
			out = append(out, offer{in.UUID, mig.ResourceName(in.Profile), c.Index, in.ID})
		}
	}
	return out
}

// Sync updates the device manager with the pods that are bound to the node and have not finished. Devices of
// removed pods are released; new pods get devices in the order of their age. It returns the pods that could
// not be served: a kubelet rejects them (UnexpectedAdmissionError).
func (m *Machine) Sync(pods []Pod, now time.Time) (refused []Pod) {
	here := map[string]bool{}
	for _, p := range pods {
		here[p.UID] = true
	}
	served := map[string]bool{}
	for id, d := range m.allocated {
		if !here[d.UID] {
			delete(m.allocated, id)
			continue
		}
		served[d.UID] = true
	}
	for _, p := range slices.SortedFunc(slices.Values(pods), func(a, b Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if !served[p.UID] && !m.admit(p, now) {
			refused = append(refused, p)
		}
	}
	return refused
}

// admit gives a pod all its devices or none.
func (m *Machine) admit(p Pod, now time.Time) bool {
	var taken []Holding
	offers := m.offers()
	if !m.plugin.ready(now) {
		offers = nil
	}
	used := map[string]bool{}
	for _, c := range p.Containers {
		for _, resource := range slices.Sorted(maps.Keys(c.Requests)) {
			for range c.Requests[resource] {
				o, ok := m.free(offers, resource, used)
				if !ok {
					return false
				}
				used[o.id] = true
				taken = append(taken, Holding{p.Namespace, p.Name, p.UID, c.Name, resource, o.id, o.dev, o.instance})
			}
		}
	}
	for _, h := range taken {
		m.allocated[h.ID] = h
	}
	return true
}

func (m *Machine) free(offers []offer, resource string, used map[string]bool) (offer, bool) {
	for _, o := range offers {
		if _, taken := m.allocated[o.id]; o.resource == resource && !taken && !used[o.id] {
			return o, true
		}
	}
	return offer{}, false
}

// Holdings lists the allocated devices, by namespace, pod, container and device.
func (m *Machine) Holdings() []Holding {
	return slices.SortedFunc(maps.Values(m.allocated), func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container), cmp.Compare(a.ID, b.ID))
	})
}

// busy reports whether a device of the GPU is allocated.
func (m *Machine) busy(dev int) bool {
	for _, d := range m.allocated {
		if d.GPU == dev {
			return true
		}
	}
	return false
}
