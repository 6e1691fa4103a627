package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/egressselector"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestEgress: the API server's own client, with the configuration that it gets, reaches pods and what
// is on this machine.
func TestEgress(t *testing.T) {
	here, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer here.Close()
	go func() {
		for {
			conn, err := here.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "this machine")
			conn.Close()
		}
	}()
	c := &Cluster{opts: Options{Egress: true}, dir: t.TempDir()}
	require.NoError(t, c.startEgress())
	defer c.egress.server.Close()
	require.NoError(t, c.SetEgress(func(_ context.Context, address string) (net.Conn, error) {
		if address != "10.127.0.2:8080" {
			return nil, errors.New("no route to " + address)
		}
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, "a pod")
			theirs.Close()
		}()
		return ours, nil
	}))
	config, err := egressselector.ReadEgressSelectorConfiguration(c.egressConfig())
	require.NoError(t, err)
	selector, err := egressselector.NewEgressSelector(config)
	require.NoError(t, err)
	dial, err := selector.Lookup(egressselector.Cluster.AsNetworkContext())
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(here.Addr().String())
	for address, want := range map[string]string{
		"10.127.0.2:8080": "a pod", "10.127.0.3:8080": "502", here.Addr().String(): "this machine", "localhost:" + port: "this machine",
	} {
		conn, err := dial(t.Context(), "tcp", address)
		got := ""
		if err != nil {
			got = err.Error()
		} else if text, err := io.ReadAll(conn); err == nil {
			got = string(text)
			conn.Close()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if err := (&Cluster{}).SetEgress(nil); err == nil {
		t.Error("a cluster without an egress takes one")
	}
}
