package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
)

// Dial connects to an address, "host:port", by TCP.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// egress forwards the API server's connections to kubelets, pods and Services, by HTTP CONNECT. This is
// Kubernetes' own mechanism for nodes in another network.
type egress struct {
	server *http.Server
	nodes  atomic.Pointer[Dial]
}

// SetEgress makes the API server reach everything outside of this machine's loopback through dial; nil ends
// that. It requires a cluster that was started with Options.Egress.
func (c *Cluster) SetEgress(dial Dial) error {
	if c.egress == nil {
		return errors.New("this cluster was started without Options.Egress: its API server reaches no real node")
	}
	c.egress.nodes.Store(&dial)
	return nil
}

func (c *Cluster) startEgress() error {
	if !c.opts.Egress {
		return nil
	}
	socket := filepath.Join(c.dir, "egress.sock")
	config := `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: ` + strconv.Quote(socket) + `}}
`
	if err := os.WriteFile(c.egressConfig(), []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing configuration: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening for the API server's connections to nodes: %w", err)
	}
	c.egress = &egress{}
	c.egress.server = &http.Server{Handler: c.egress}
	go func() { _ = c.egress.server.Serve(l) }() // until Close
	return nil
}

func (c *Cluster) egressConfig() string { return filepath.Join(c.dir, "egress.yaml") }

func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "want CONNECT", http.StatusMethodNotAllowed)
		return
	}
	to, err := e.dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	// The client sends nothing before the answer, so the server's buffer is empty.
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		to.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		to.Close()
		from.Close()
		return
	}
	Join(from, to)
}

func (e *egress) dial(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	nodes := e.nodes.Load()
	if ip := net.ParseIP(host); nodes == nil || *nodes == nil || host == "localhost" || ip != nil && ip.IsLoopback() {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return (*nodes)(ctx, address)
}

// Join copies data between two connections until both directions have ended, and then closes both.
func Join(a, b io.ReadWriteCloser) {
	var both sync.WaitGroup
	for _, way := range []struct{ to, from io.ReadWriteCloser }{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way.to, way.from)
			if half, ok := way.to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
				return
			}
			_ = way.to.Close()
		})
	}
	both.Wait()
	a.Close()
	b.Close()
}
