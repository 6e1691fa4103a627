package node

import (
	"sort"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// wholeCard is the resource of cards that are not in MIG mode.
const wholeCard = "nvidia.com/gpu"

// Pod is what the device manager needs of a pod bound to the node.
type Pod struct {
	Namespace, Name, UID string
	Created              time.Time
	Containers           []Container
}

// Container and the devices it asks for by resource.
type Container struct {
	Name string
	Asks map[string]int
}

// Holding is one device held by a container.
type Holding struct {
	Namespace, Pod, UID, Container string
	Resource                       string
	ID                             string // as the device plugin gives it: "GPU-…" or "MIG-…"
	Card                           int
	Instance                       int // GPU instance id; -1 for a whole card
}

// device held by somebody.
type device struct {
	Holding
}

// offer is a device that the plugin advertises.
type offer struct {
	id, resource   string
	card, instance int
}

// offers lists all devices, in the order in which they are handed out.
func (m *Machine) offers() []offer {
	var out []offer
	for _, c := range m.cards {
		if !c.MIG {
			out = append(out, offer{c.UUID, wholeCard, c.Index, -1})
			continue
		}
		for _, in := range c.Instances {
			out = append(out, offer{in.UUID, mig.ResourceName(in.Profile), c.Index, in.ID})
		}
	}
	return out
}

// Sync tells the device manager which pods are bound to the node and not
// finished. Devices of pods that have gone are free again; new pods get theirs
// in order of age. Pods that could not be served are returned: a kubelet
// refuses them (UnexpectedAdmissionError).
func (m *Machine) Sync(pods []Pod, now time.Time) (refused []Pod) {
	here := map[string]bool{}
	for _, p := range pods {
		here[p.UID] = true
	}
	served := map[string]bool{}
	for id, d := range m.held {
		if !here[d.UID] {
			delete(m.held, id)
			continue
		}
		served[d.UID] = true
	}
	pods = append([]Pod(nil), pods...)
	sort.Slice(pods, func(i, j int) bool {
		a, b := pods[i], pods[j]
		if !a.Created.Equal(b.Created) {
			return a.Created.Before(b.Created)
		}
		return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
	})
	for _, p := range pods {
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
		for _, resource := range sortedKeys(c.Asks) {
			for range c.Asks[resource] {
				o, ok := m.free(offers, resource, used)
				if !ok {
					return false
				}
				used[o.id] = true
				taken = append(taken, Holding{p.Namespace, p.Name, p.UID, c.Name, resource, o.id, o.card, o.instance})
			}
		}
	}
	for _, h := range taken {
		m.held[h.ID] = device{h}
	}
	return true
}

func (m *Machine) free(offers []offer, resource string, used map[string]bool) (offer, bool) {
	for _, o := range offers {
		if _, held := m.held[o.id]; o.resource == resource && !held && !used[o.id] {
			return o, true
		}
	}
	return offer{}, false
}

// Holdings lists who holds what, by namespace, pod, container and device.
func (m *Machine) Holdings() []Holding {
	out := make([]Holding, 0, len(m.held))
	for _, d := range m.held {
		out = append(out, d.Holding)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Namespace != b.Namespace {
			return a.Namespace < b.Namespace
		}
		if a.Pod != b.Pod {
			return a.Pod < b.Pod
		}
		if a.Container != b.Container {
			return a.Container < b.Container
		}
		return a.ID < b.ID
	})
	return out
}

// busy says whether anybody holds a part of the card.
func (m *Machine) busy(card int) bool {
	for _, d := range m.held {
		if d.Card == card {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
