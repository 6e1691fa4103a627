package pods

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// The node's pods, and no others, are asked for; a text is made once for each
// answer; while the API server fails the last answer stays.
func TestMetadata(t *testing.T) {
	answer, fails := `{"items":[{"metadata":{"name":"p","namespace":"n","uid":"u1","labels":{"app":"x"}}}]}`, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/pods" || r.URL.Query().Get("fieldSelector") != "spec.nodeName=node-1" {
			t.Errorf("asked for %s", r.URL)
		}
		if fails {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	api := &API{Base: server.URL, Client: server.Client()}
	w := &Watcher{cluster: newCluster(Options{API: api, Node: "node-1", Labels: true, Log: slog.New(slog.DiscardHandler)})}
	if !w.cluster.asked() {
		t.Fatal("labels alone do not ask the API server")
	}
	made := 0
	m := w.Metadata(func(p *Pod) string { made++; return p.UID + " " + p.Labels["app"] })
	if len(m.Texts()) != 0 {
		t.Error("texts before the first answer")
	}
	name := collect.PodName{Namespace: "n", Name: "p"}
	w.cluster.refresh(t.Context())
	if got := m.Texts()[name]; got != "u1 x" || m.Texts()[name] != got || made != 1 {
		t.Errorf("%q, made %d times", got, made)
	}
	answer = `{"items":[{"metadata":{"name":"p","namespace":"n","uid":"u2"}}]}`
	w.cluster.refresh(t.Context())
	if got := m.Texts()[name]; got != "u2 " {
		t.Errorf("after a change: %q", got)
	}
	fails = true
	w.cluster.refresh(t.Context())
	if got := m.Texts()[name]; got != "u2 " {
		t.Errorf("while it fails: %q", got)
	}
}
