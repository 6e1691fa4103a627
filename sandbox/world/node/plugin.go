package node

import (
	"maps"
	"time"
)

// plugin is NVIDIA's device plugin. While it is down, or has not enumerated
// yet, the kubelet reports none of its devices as allocatable.
type plugin struct {
	running bool
	since   time.Time // when its report counts
}

func (p *plugin) start(now time.Time, enumerate time.Duration) {
	p.running, p.since = true, now.Add(enumerate)
}

func (p *plugin) stop() { p.running = false }

func (p *plugin) ready(now time.Time) bool { return p.running && !now.Before(p.since) }

// Allocatable is how many devices of each resource the kubelet lets pods have.
// A resource that has vanished with its layout stays, at 0, as the kubelet
// keeps it until it restarts. Before the first report there is nothing.
func (m *Machine) Allocatable(now time.Time) map[string]int {
	out := map[string]int{}
	for r := range m.known {
		out[r] = 0
	}
	if !m.plugin.ready(now) {
		return out
	}
	for _, o := range m.offers() {
		out[o.resource]++
	}
	for r := range m.known {
		m.known[r] = 0
	}
	for r, n := range out {
		m.known[r] = n
	}
	return out
}

// Capacity is how many devices of each resource the plugin reported last. It
// outlives the plugin: while that is down the devices count as unhealthy.
func (m *Machine) Capacity() map[string]int { return maps.Clone(m.known) }
