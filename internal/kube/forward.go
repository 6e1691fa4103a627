package kube

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// forward is how often a forwarded port is tried, and the pause between two
// tries.
var forward = wait.Backoff{Steps: 30, Duration: 100 * time.Millisecond}

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
	_ = wait.ExponentialBackoffWithContext(ctx, forward, func(ctx context.Context) (bool, error) { // after the last try the request itself finds out
		conn, err := dial(ctx, "tcp", u.Host)
		if err == nil {
			_ = conn.Close() // opened only to see that the port accepts connections
		}
		return !errors.Is(err, syscall.ECONNREFUSED), nil
	})
}
