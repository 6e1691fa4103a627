package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
)

// file writes a file and returns its path.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// agentOn runs an agent on a machine without a driver, whose API server has no nodes. It
// returns what the agent serves, by path.
func agentOn(t *testing.T, listen func(dir string) string) (get func(path string) (int, string), end func() error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent-*") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	api := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	config := file(t, dir, "agent.yaml", "lockFile: "+filepath.Join(dir, "lock")+"\nlibrary: "+filepath.Join(dir, "none.so")+"\nperiod: 1s\n")
	kubeconfig := file(t, dir, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "`+api.URL+`"}}], users: [{name: u, user: {}}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := newCommand(io.Discard, io.Discard)
	cmd.SetArgs([]string{"--config", config, "--kubeconfig", kubeconfig, "--node-name", "n", "--listen", listen(dir)})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	socket := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "http.sock"))
	}}}
	t.Cleanup(socket.CloseIdleConnections)
	get = func(path string) (int, string) {
		response, err := socket.Get("http://agent" + path)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	return get, func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return errors.New("it has not ended")
		}
	}
}

// TestAgentServes: the agent serves its liveness, its readiness with the reason, and its
// metrics.
func TestAgentServes(t *testing.T) {
	get, end := agentOn(t, func(dir string) string { return "unix:" + filepath.Join(dir, "http.sock") })
	code, body := 0, ""
	await.For(t, time.Minute, "/readyz says why", func() error {
		if code, body = get("/readyz"); !strings.Contains(body, "getting node n") {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	if code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, "gpuscale_agent_build_info{") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestAgentServesNothing: with an empty --listen there is no server.
func TestAgentServesNothing(t *testing.T) {
	get, end := agentOn(t, func(string) string { return "" })
	if code, _ := get("/livez"); code != 0 {
		t.Errorf("/livez: %d", code)
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
