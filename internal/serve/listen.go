package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// Listen binds "host:port", ":port" or "unix:/path". Its errors explain a taken or
// forbidden address. A stale socket file is replaced; one that answers is not.
func Listen(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(path)
	}
	if address == "" {
		return nil, errors.New(`listening: no address given, want "host:port" or ":port"`)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, explain(address, err)
	}
	return l, nil
}

func listenUnix(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && stale(path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listening on unix:%s: removing the old socket: %w", path, err)
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, explain("unix:"+path, err)
	}
	return l, nil
}

// stale reports whether path is a socket that refuses connections: its process
// ended without removing it.
func stale(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func explain(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listening on %s: the address is in use: another process listens there; stop it or choose another address: %w", address, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listening on %s: not permitted for this user; ports below 1024 need a capability, choose a higher one: %w", address, syscall.EACCES)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listening on %s: this machine has no such address: %w", address, syscall.EADDRNOTAVAIL)
	}
	return fmt.Errorf("listening on %s: %w", address, err)
}
