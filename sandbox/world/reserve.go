package world

import (
	"fmt"
	"sync"
	"syscall"
)

// reserved ports of the loopback, by name. A port stays its name's own until
// the sandbox ends, also while nothing listens on it: an exporter that is
// started again must find its port free, and Prometheus its target where it was.
type reserved struct {
	mu    sync.Mutex
	ports map[string]int
}

// port of a name.
func (r *reserved) port(name string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.ports[name]; ok {
		return p, nil
	}
	p, err := reserve()
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if r.ports == nil {
		r.ports = map[string]int{}
	}
	r.ports[name] = p
	return p, nil
}

// reserve binds a socket and never listens on it: the kernel then gives the
// port to nobody who asks for any port, but with SO_REUSEADDR, which Go's
// listeners set, it can still be listened on by who asks for this one.
func reserve() (int, error) {
	syscall.ForkLock.RLock() // a child must not inherit it
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return address.(*syscall.SockaddrInet4).Port, nil
}
