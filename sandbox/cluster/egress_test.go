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

// answer speaks second, as servers do: the API server's client takes nothing that comes with the
// answer to CONNECT.
func answer(conn net.Conn, text string) {
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		_, _ = io.WriteString(conn, text)
	}
}

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
			answer(conn, "this machine")
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
		go answer(theirs, "a pod")
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
		if err == nil {
			_, _ = io.WriteString(conn, "?")
			text, _ := io.ReadAll(conn)
			got = string(text)
			conn.Close()
		} else {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if err := (&Cluster{}).SetEgress(nil); err == nil {
		t.Error("a cluster without an egress takes one")
	}
}
