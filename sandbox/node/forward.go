//go:build linux

package node

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// forward makes ports of this machine's loopback answer in the node's network at
// the same numbers: at its loopback, for its own programs, and at its address, for
// pods.
func (n *Node) forward(ports ...int) error {
	for _, port := range ports {
		for _, host := range []string{"127.0.0.1", address} {
			l, err := n.network.listen(net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("forwarding port %d: %w", port, err)
			}
			n.listeners = append(n.listeners, l)
			go pass(l, port)
		}
	}
	return nil
}

// pass ends with its listener.
func pass(l net.Listener, port int) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				from.Close()
				return
			}
			cluster.Join(from, to)
		}()
	}
}
