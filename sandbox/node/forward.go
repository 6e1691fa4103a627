//go:build linux

package node

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// forward makes ports of this machine's loopback reachable in the node's network, at the same numbers: on the
// node's loopback for its programs, and on its address for pods.
func (n *Node) forward(ports ...int) error {
	for _, port := range ports {
		for _, host := range []string{"127.0.0.1", address} {
			l, err := n.network.listen(net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("forwarding port %d: %w", port, err)
			}
			n.listeners = append(n.listeners, l)
			go pass(l, func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			})
		}
	}
	return nil
}

// Expose makes an address in the node's network (see Dial) reachable on this machine's loopback until Stop.
// It returns the local address.
func (n *Node) Expose(address string) (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("exposing %s: %w", address, err)
	}
	n.listeners = append(n.listeners, l)
	go pass(l, func(ctx context.Context) (net.Conn, error) { return n.Dial(ctx, address) })
	return l.Addr().String(), nil
}

// pass forwards connections until its listener is closed.
func pass(l net.Listener, dial func(context.Context) (net.Conn, error)) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			to, err := dial(context.Background())
			if err != nil {
				from.Close()
				return
			}
			cluster.Join(from, to)
		}()
	}
}
