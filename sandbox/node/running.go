//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpuscale/gpuscale/sandbox/node/image"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// Err returns why the node ended by itself; nil while it runs.
func (n *Node) Err() error {
	select {
	case <-n.ended:
		return fmt.Errorf("node %s has ended: %w", nodeName, n.err)
	default:
		return nil
	}
}

// Name of the Node object.
func (n *Node) Name() string { return nodeName }

// Address at which pods reach Options.Ports.
func (n *Node) Address() string { return address }

// Dial connects to host:port in the node's network: a pod, a Service, or a port of the node. The host is an
// IP address or the node's name.
func (n *Node) Dial(ctx context.Context, to string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return nil, err
	}
	if host == nodeName {
		host = address
	}
	if net.ParseIP(host) == nil {
		return nil, fmt.Errorf("%s: the node's network has no names", to)
	}
	return n.network.dial(ctx, net.JoinHostPort(host, port))
}

// Path returns the path on this machine of a file on the node, including mounts and sockets. It is valid
// while the node runs.
func (n *Node) Path(file string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", n.pid), file)
}

// PodResources is the path of the kubelet's PodResources socket on this machine.
func (n *Node) PodResources() string { return n.Path(kubeletFolder + "/pod-resources/kubelet.sock") }

// Log returns the path of a program's log file.
func (n *Node) Log(program string) string {
	return filepath.Join(n.root, "var/log", program+".log")
}

// explain adds to an error why the node ended, or else the last lines of its logs.
func (n *Node) explain(err error) error {
	if n.pid == 0 {
		return err
	}
	if _, statErr := os.Stat(n.Path("/")); statErr != nil {
		<-n.ended // the keeper removes the node's files
	}
	if ended := n.Err(); ended != nil {
		if errors.Is(err, n.err) {
			return err
		}
		return errors.Join(ended, err)
	}
	return fmt.Errorf("%w%s", err, n.logs())
}

// logs returns the last lines of all logs, for an error.
func (n *Node) logs() string {
	var b strings.Builder
	for _, p := range []string{Containerd, Kubelet, KubeProxy} {
		if tail := proc.Tail(n.Log(p), 10); len(tail) > 0 {
			fmt.Fprintf(&b, "\n  %s:\n    %s", p, strings.Join(tail, "\n    "))
		}
	}
	return b.String()
}

// Load loads images into the node's store. Pods use them as docker.io/library/NAME.
func (n *Node) Load(ctx context.Context, images ...image.Image) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, i := range images {
		file := filepath.Join(n.cluster.Dir(), fmt.Sprintf("image-%s-%d.tar", nodeName, n.images.Add(1)))
		defer os.Remove(file)
		if err := i.Write(file); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(n.opts.Binaries.Containerd, "ctr"), "--address", n.Path(containerdSocket),
			"--namespace", "k8s.io", "images", "import", file)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("loading image %s: %w: %s", i.Name, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
