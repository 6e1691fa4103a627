package world

import (
	"errors"
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
	fds   []int
}

// port of a name.
func (r *reserved) port(name string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.ports[name]; ok {
		return p, nil
	}
	p, fd, err := reserve()
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if r.ports == nil {
		r.ports = map[string]int{}
	}
	r.ports[name] = p
	r.fds = append(r.fds, fd)
	return p, nil
}

// release gives all ports back.
func (r *reserved) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fd := range r.fds {
		_ = syscall.Close(fd)
	}
	r.ports, r.fds = nil, nil
}

// reserve binds a socket and never listens on it: the kernel then gives the
// port to nobody who asks for any port, but with SO_REUSEADDR, which Go's
// listeners set, it can still be listened on by who asks for this one.
func reserve() (port, fd int, err error) {
	syscall.ForkLock.RLock() // a child must not inherit it
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, 0, err
	}
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var at syscall.Sockaddr
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	v4, ok := at.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		_ = syscall.Close(fd)
		return 0, 0, errors.Join(errors.New("binding to the loopback"), err)
	}
	return v4.Port, fd, nil
}
