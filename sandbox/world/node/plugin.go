package node

import "time"

// endpointGrace is how long a kubelet counts the devices of a resource whose plugin has gone.
const endpointGrace = 5 * time.Minute

// plugin is NVIDIA's device plugin. While it is down, or has not enumerated
// yet, the kubelet reports none of its devices as allocatable. What the kubelet makes of it was checked
// against pkg/kubelet/cm/devicemanager and nodestatus of Kubernetes 1.37.1 on 2026-11-28.
type plugin struct {
	running bool
	since   time.Time // when its report counts
}

func (p *plugin) start(now time.Time, enumerate time.Duration) {
	p.running, p.since = true, now.Add(enumerate)
}

func (p *plugin) stop() { p.running = false }

func (p *plugin) ready(now time.Time) bool { return p.running && !now.Before(p.since) }

// registered is what the kubelet knows of an extended resource.
type registered struct {
	devices int
	gone    time.Time // since when its plugin has none of them; zero while it has
}

// Allocatable is how many devices of each resource the kubelet lets pods have.
// A resource that has vanished with its layout stays, at 0, as the kubelet
// keeps it until it restarts. Before the first report there is nothing.
func (m *Machine) Allocatable(now time.Time) map[string]int {
	out := map[string]int{}
	for r := range m.known {
		out[r] = 0
	}
	if m.plugin.ready(now) {
		for _, o := range m.offers() {
			out[o.resource]++
		}
	}
	for r, n := range out {
		switch is := m.known[r]; {
		case n > 0:
			m.known[r] = registered{devices: n}
		case is.gone.IsZero():
			m.known[r] = registered{is.devices, now}
		}
	}
	return out
}

// Capacity is how many devices of each resource the plugin reported last. It
// outlives the plugin for a while, and a layout: the devices count as unhealthy.
func (m *Machine) Capacity(now time.Time) map[string]int {
	out := map[string]int{}
	for r, is := range m.known {
		out[r] = is.devices
		if !is.gone.IsZero() && now.Sub(is.gone) > endpointGrace {
			out[r] = 0
		}
	}
	return out
}
