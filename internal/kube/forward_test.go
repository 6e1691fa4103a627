package kube

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A local port is waited for while it refuses connections, for at most three seconds.
func TestAwaitForward(t *testing.T) {
	for address, c := range map[string]struct {
		refused int
		after   error
		dials   int
	}{
		"http://localhost:9090/prometheus": {12, nil, 13},
		"http://[::1]:9090":                {0, nil, 1},
		"http://127.0.0.2:9090":            {0, syscall.EHOSTUNREACH, 1},
		"http://127.0.0.1:9090":            {1000, nil, 30},
		"http://10.0.0.1:9090":             {1000, nil, 0},
		"http://localhost":                 {1000, nil, 0},
		"":                                 {1000, nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			dials, began := 0, time.Now()
			awaitForward(t.Context(), address, func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials <= c.refused {
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				here, _ := net.Pipe()
				return here, c.after
			})
			if waits := time.Since(began); dials != c.dials || waits != time.Duration(max(0, dials-1))*forward.Duration {
				t.Errorf("%q: %d dials in %s, want %d", address, dials, waits, c.dials)
			}
		})
	}
}
