package world

import (
	"sync"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// reserved ports of the loopback, by name. A port stays its name's own until
// the sandbox ends, also while nothing listens on it: an exporter that is
// started again must find its port free, and Prometheus its target where it was.
type reserved struct {
	mu       sync.Mutex
	ports    map[string]int
	releases []func()
}

// port of a name.
func (r *reserved) port(name string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.ports[name]; ok {
		return p, nil
	}
	p, release, err := proc.ReservePort()
	if err != nil {
		return 0, err
	}
	if r.ports == nil {
		r.ports = map[string]int{}
	}
	r.ports[name] = p
	r.releases = append(r.releases, release)
	return p, nil
}

// release gives all ports back.
func (r *reserved) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, release := range r.releases {
		release()
	}
	r.ports, r.releases = nil, nil
}
