package kube

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"time"
)

// How often a forwarded port is tried, and the pause after each time.
const (
	forwardTries = 30
	forwardPause = 100 * time.Millisecond
)

// AwaitForward waits until a port of this machine accepts connections: "kubectl
// port-forward … &" listens only once it has reached the API server. Other addresses, and
// whatever else is wrong, are left to the request that follows.
func AwaitForward(ctx context.Context, address string) {
	awaitForward(ctx, address, new(net.Dialer).DialContext)
}

func awaitForward(ctx context.Context, address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" || u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		return
	}
	for range forwardTries {
		conn, err := dial(ctx, "tcp", u.Host)
		if err == nil {
			_ = conn.Close() // it was opened to see that it can be
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(forwardPause):
		}
	}
}
