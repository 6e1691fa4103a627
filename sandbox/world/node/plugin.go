package node

import "time"

// endpointGrace is how long a kubelet still counts the devices of a plugin that is gone.
const endpointGrace = 5 * time.Minute

// plugin is NVIDIA's device plugin. While it is down or has not enumerated yet, the kubelet reports none of
// its devices as allocatable. The kubelet's behaviour was checked against pkg/kubelet/cm/devicemanager and
// nodestatus of Kubernetes 1.37.1 on 2026-11-28.
type plugin struct {
	running bool
	since   time.Time // time from which its report counts
}

func (p *plugin) start(now time.Time, enumerate time.Duration) {
	p.running, p.since = true, now.Add(enumerate)
}

func (p *plugin) stop() { p.running = false }

func (p *plugin) ready(now time.Time) bool { return p.running && !now.Before(p.since) }

// registered is the kubelet's state of an extended resource.
type registered struct {
	devices int
	gone    time.Time // time since which its plugin has no such device; zero while it has
}

// Allocatable returns how many devices of each resource pods can get. A resource that has disappeared with
// its layout stays with value 0, as in the kubelet until it restarts. Before the first report there are no
// resources.
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

// Capacity returns how many devices of each resource the plugin reported last. The kubelet keeps these for a
// while after the plugin or the layout is gone; the devices count as unhealthy.
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
