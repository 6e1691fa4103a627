package main

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/plan"
)

// TestAllOfDebugIsProtected: every page below /debug is behind the guard, Go's profiles
// included.
func TestAllOfDebugIsProtected(t *testing.T) {
	mux := http.NewServeMux()
	routes(mux, loop.New(loop.Options{}).State, plan.DefaultPolicy(), guard{log: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"plan", "snapshot", "panic", "pprof/", "pprof/heap", "pprof/goroutine", "pprof/profile", "pprof/trace", "pprof/cmdline", "pprof/symbol"} {
		for from, want := range map[string]int{"10.0.0.7:40000": http.StatusForbidden, "127.0.0.1:40000": http.StatusOK} {
			if want == http.StatusOK && path != "pprof/" && path != "pprof/heap" && path != "pprof/goroutine" {
				continue // they are empty yet, or slow
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/"+path, nil)
			r.RemoteAddr, r.Host = from, "localhost:9402"
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("/debug/%s to %s: %d, want %d", path, from, w.Code, want)
			}
		}
	}
}

// TestDebugIsProtected: requests from the pod itself need no token, others do, also those
// through a proxy on the pod.
func TestDebugIsProtected(t *testing.T) {
	dir := t.TempDir()
	const secret = "correct-horse-battery"
	good := file(t, dir, "good", secret+"\n")
	for _, c := range []struct {
		name, from, tokenFile string
		host                  string // localhost unless given
		header                [2]string
		want                  int
		says                  string
	}{
		{name: "the pod itself", from: "127.0.0.1:40000", want: 200},
		{name: "the pod itself, IPv6", from: "[::1]:40000", want: 200},
		{name: "elsewhere", from: "10.0.0.7:40000", want: 403, says: "port-forward"},
		{name: "a proxy on the pod", from: "127.0.0.1:40000", header: [2]string{"X-Forwarded-For", "10.0.0.7"}, want: 403},
		{name: "the pod itself, by its loopback address", from: "[::1]:40000", host: "[::1]:9402", want: 200},
		{name: "a web page whose name leads here", from: "127.0.0.1:40000", host: "attacker.example:9402", want: 403},
		{name: "another address that leads here", from: "127.0.0.1:40000", host: "10.0.0.7", want: 403},
		{name: "no address", from: "", want: 403},
		{name: "a name", from: "localhost:1", want: 403},
		{name: "no token", from: "10.0.0.7:1", tokenFile: good, want: 401, says: tokenHeader},
		{name: "a wrong token", from: "10.0.0.7:1", tokenFile: good, header: [2]string{tokenHeader, secret + "x"}, want: 401},
		{name: "the token", from: "10.0.0.7:1", tokenFile: good, header: [2]string{tokenHeader, secret}, want: 200},
		{name: "the token as a bearer", from: "10.0.0.7:1", tokenFile: good, header: [2]string{"Authorization", "Bearer " + secret}, want: 200},
		{name: "an empty bearer of an empty file", from: "10.0.0.7:1", tokenFile: file(t, dir, "empty", "\n"), header: [2]string{"Authorization", "Bearer "}, want: 403},
		{name: "a truncated file", from: "10.0.0.7:1", tokenFile: file(t, dir, "short", "abc"), header: [2]string{tokenHeader, "abc"}, want: 403},
		{name: "no such file", from: "10.0.0.7:1", tokenFile: filepath.Join(dir, "none"), header: [2]string{tokenHeader, secret}, want: 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := guard{DebugConfig{TokenFile: c.tokenFile}, slog.New(slog.DiscardHandler)}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/plan", nil)
			r.RemoteAddr, r.Host = c.from, cmp.Or(c.host, "localhost:9402")
			if c.header[0] != "" {
				r.Header.Set(c.header[0], c.header[1])
			}
			w := httptest.NewRecorder()
			g.protect(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("shown")) })(w, r)
			if w.Code != c.want || (w.Body.String() == "shown") != (c.want == 200) || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d %q, want %d with %q", w.Code, w.Body, c.want, c.says)
			}
			if strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), dir) {
				t.Errorf("reveals the token: %q", w.Body)
			}
		})
	}
}
