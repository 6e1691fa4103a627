package cluster

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// connect asks the proxy for an address and returns the answer with what the other
// end has written.
func connect(t *testing.T, proxy *httptest.Server, address string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "CONNECT "+address+" HTTP/1.1\r\nHost: "+address+"\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	require.NoError(t, err)
	if resp.StatusCode != http.StatusOK {
		in = bufio.NewReader(resp.Body)
	}
	text, _ := io.ReadAll(in)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

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
	e := &egress{}
	proxy := httptest.NewServer(e)
	defer proxy.Close()
	c := &Cluster{egress: e}
	if err := c.SetEgress(func(_ context.Context, address string) (net.Conn, error) {
		if address != "10.127.0.2:8080" {
			return nil, errors.New("no route to " + address)
		}
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, "a pod")
			theirs.Close()
		}()
		return ours, nil
	}); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]struct {
		status int
		body   string
	}{
		"10.127.0.2:8080":                  {200, "a pod"},
		"10.127.0.3:8080":                  {502, "no route to 10.127.0.3:8080"},
		here.Addr().String():               {200, "this machine"},
		"localhost" + port(t, here.Addr()): {200, "this machine"},
	} {
		if status, body := connect(t, proxy, address); status != want.status || body != want.body {
			t.Errorf("%s: %d %q, want %d %q", address, status, body, want.status, want.body)
		}
	}
	if err := (&Cluster{}).SetEgress(nil); err == nil {
		t.Error("a cluster without an egress takes one")
	}
}

func port(t *testing.T, a net.Addr) string {
	_, p, err := net.SplitHostPort(a.String())
	require.NoError(t, err)
	return ":" + p
}
