package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// installed are the objects of a healthy installation.
func installed(t *testing.T) string { return string(mustRead(t, "doctor/testdata/base.yaml")) }

func fake(t *testing.T, text string) (*fakeAPI, doctor.Options) {
	t.Helper()
	s := newFakeAPI(t, text)
	return s, doctor.Options{Kube: &rest.Config{Host: s.URL}, NoPrometheus: "none was given", Sources: doctor.Sources(doctor.All())}
}

// All sources of a small cluster: few calls, all of them reads, and all facts of checks.
func TestGather(t *testing.T) {
	s, o := fake(t, installed(t))
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	calls := s.Calls()
	if f.Calls != len(calls) || len(calls) > 45 {
		t.Errorf("%d calls, counted as %d, want at most 45: %q", len(calls), f.Calls, calls)
	}
	for _, c := range calls {
		if !strings.HasPrefix(c, "GET ") {
			t.Errorf("it does more than read: %s", c)
		}
	}
	for what, ok := range map[string]bool{
		"nodes": len(f.Nodes) == 1, "pods": len(f.Pods) == 1, "services": len(f.Services) == 1, "endpoints": len(f.EndpointSlices) == 1,
		"config": len(f.ConfigMaps) == 1, "lease": len(f.Leases) == 1, "rolebindings": len(f.RoleBindings) == 1,
		"metrics": slices.Equal(f.CustomMetrics, []string{"gpu_busy", "queue_depth"}), "KEDA is absent": f.Missing[doctor.ScaledObjects] == "",
		"no Prometheus": f.Missing[doctor.GPUNodes] == "none was given", "the clock": f.Local.Sub(f.Now).Abs() < 5*time.Second,
	} {
		if !ok {
			t.Errorf("%s: not so", what)
		}
	}
}

// Lists are read page by page. An endless list ends at the bound, and is reported as partial; so does a cluster of
// endless lists.
func TestBounds(t *testing.T) {
	s, o := fake(t, "kind: Node")
	s.Endless = []string{"/api/v1/nodes"}
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	if len(f.Nodes) != 20_000 || !strings.Contains(f.Missing[doctor.Nodes], "only the first 20000") {
		t.Errorf("%d nodes, %q", len(f.Nodes), f.Missing[doctor.Nodes])
	}
	const most = 400 // calls
	if f.Calls > most {
		t.Errorf("%d calls", f.Calls)
	}
	s, o = fake(t, "kind: Node\n---\nkind: Pod")
	s.Endless = []string{"/api/v1/nodes", "/api/v1/pods"}
	f, err = doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	if f.Calls != most || len(s.Calls()) != most {
		t.Errorf("%d calls, counted as %d, want the bound %d", len(s.Calls()), f.Calls, most)
	}
	if !strings.Contains(f.Missing[doctor.CRDs], "bound") {
		t.Errorf("%q, want that the bound is reached", f.Missing[doctor.CRDs])
	}
}

// Missing rights are named, one by one, and nothing else is lost.
func TestForbidden(t *testing.T) {
	objects := installed(t)
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} { // which are read where an Event names them
		objects += fmt.Sprintf("\n---\n{kind: Event, metadata: {name: %[1]s, namespace: gs}, type: Warning, reason: FailedCreate, involvedObject: {kind: %[1]s, namespace: gs, name: a}}", kind)
	}
	for _, d := range doctor.Table {
		if len(d.Paths) == 0 {
			continue
		}
		s, o := fake(t, objects)
		for _, p := range d.Paths {
			path, _, _ := strings.Cut(strings.ReplaceAll(p, "namespaces/%s", "namespaces/gs"), "/%s")
			s.Denied = append(s.Denied, path)
		}
		f, err := doctor.Gather(t.Context(), o)
		require.NoError(t, err)
		if want := "you lack the right to " + d.Right(); f.Missing[d] != want {
			// What other facts name is not read where those cannot be read.
			t.Errorf("%s: %q, want %q", d.Name, f.Missing[d], want)
		}
	}
}

func TestNoAPIServer(t *testing.T) {
	s, o := fake(t, "")
	s.Broken = []string{"/"}
	if _, err := doctor.Gather(t.Context(), o); err == nil || !strings.Contains(err.Error(), "etcd is away") {
		t.Errorf("err = %v", err)
	}
	o.Kube = &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := doctor.Gather(t.Context(), o); err == nil {
		t.Error("connection refused")
	}
	// A server that stops in the middle: the rest is reported as missing.
	s, o = fake(t, installed(t))
	s.Broken = []string{"/api/v1/nodes"}
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	if !strings.Contains(f.Missing[doctor.Nodes], "etcd is away") {
		t.Errorf("nodes: %q", f.Missing[doctor.Nodes])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := doctor.Gather(ctx, o); err == nil {
		t.Error("its time was over before it began")
	}
}

// An unreachable Prometheus is queried once, and so is one with series of several clusters.
func TestPrometheusAway(t *testing.T) {
	for status, c := range map[int]struct{ body, says string }{
		http.StatusServiceUnavailable: {"starting up", "HTTP 503"},
		http.StatusOK:                 {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"cluster":"b"},"value":[1,"4"]},{"metric":{"cluster":"a"},"value":[1,"4"]}]}}`, "of 2 clusters (a, b)"},
	} {
		asked := 0
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(status)
			_, _ = w.Write([]byte(c.body))
		}))
		t.Cleanup(h.Close)
		client, err := prom.New(prom.Config{URL: h.URL})
		require.NoError(t, err)
		_, o := fake(t, installed(t))
		o.Prometheus = client
		f, err := doctor.Gather(t.Context(), o)
		require.NoError(t, err)
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		for _, d := range doctor.Table {
			if d.Query != "" && !strings.Contains(f.Missing[d], c.says) {
				t.Errorf("%s: %q", d.Name, f.Missing[d])
			}
		}
	}
}
