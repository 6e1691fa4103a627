package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/doctor/fakeapi"
)

func fake(t *testing.T, text string) (*fakeapi.Server, Options) {
	t.Helper()
	s, err := fakeapi.New(text)
	require.NoError(t, err)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, Options{Kube: &rest.Config{Host: h.URL}, NoPrometheus: "none was given", Sources: Sources(All())}
}

// All sources of a small cluster: few calls, all of them reads, and all facts of checks.
func TestGather(t *testing.T) {
	s, o := fake(t, string(mustRead(t, "testdata/base.yaml")))
	s.Extra["/apis/custom.metrics.k8s.io/v1beta2"] = `{"resources":[{"name":"pods/gpu_busy"},{"name":"deployments.apps/queue_depth"}]}`
	f, err := Gather(t.Context(), o)
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
		"metrics": slices.Equal(f.CustomMetrics, []string{"gpu_busy", "queue_depth"}), "KEDA is absent": f.Absent[ScaledObjects],
		"no Prometheus": f.Missing[GPUNodes] == "none was given", "the clock": f.Local.Sub(f.Now).Abs() < 5*time.Second,
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
	f, err := Gather(t.Context(), o)
	require.NoError(t, err)
	if len(f.Nodes) != maxObjects || !strings.Contains(f.Missing[Nodes], "only the first 20000") {
		t.Errorf("%d nodes, %q", len(f.Nodes), f.Missing[Nodes])
	}
	if f.Calls > maxCalls {
		t.Errorf("%d calls", f.Calls)
	}
	s, o = fake(t, "kind: Node\n---\nkind: Pod")
	s.Endless = []string{"/api/v1/nodes", "/api/v1/pods"}
	f, err = Gather(t.Context(), o)
	require.NoError(t, err)
	if f.Calls != maxCalls || len(s.Calls()) != maxCalls {
		t.Errorf("%d calls, counted as %d, want the bound %d", len(s.Calls()), f.Calls, maxCalls)
	}
	if !strings.Contains(f.Missing[CRDs], "bound") {
		t.Errorf("%q, want that the bound is reached", f.Missing[CRDs])
	}
}

// Missing rights are named, one by one, and nothing else is lost.
func TestForbidden(t *testing.T) {
	objects := string(mustRead(t, "testdata/base.yaml"))
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} { // which are read where an Event names them
		objects += fmt.Sprintf("\n---\n{kind: Event, metadata: {name: %[1]s, namespace: gs}, type: Warning, reason: FailedCreate, involvedObject: {kind: %[1]s, namespace: gs, name: a}}", kind)
	}
	for _, d := range Table {
		if len(d.Paths) == 0 {
			continue
		}
		s, o := fake(t, objects)
		for _, p := range d.Paths {
			path, _, _ := strings.Cut(strings.ReplaceAll(p, "namespaces/%s", "namespaces/gs"), "/%s")
			s.Denied = append(s.Denied, path)
		}
		f, err := Gather(t.Context(), o)
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
	if _, err := Gather(t.Context(), o); err == nil || !strings.Contains(err.Error(), "etcd is away") {
		t.Errorf("err = %v", err)
	}
	o.Kube = &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := Gather(t.Context(), o); err == nil {
		t.Error("connection refused")
	}
	// A server that stops in the middle: the rest is reported as missing.
	s, o = fake(t, string(mustRead(t, "testdata/base.yaml")))
	s.Broken = []string{"/api/v1/nodes"}
	f, err := Gather(t.Context(), o)
	require.NoError(t, err)
	if !strings.Contains(f.Missing[Nodes], "etcd is away") {
		t.Errorf("nodes: %q", f.Missing[Nodes])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Gather(ctx, o); err == nil {
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
		_, o := fake(t, string(mustRead(t, "testdata/base.yaml")))
		o.Prometheus = client
		f, err := Gather(t.Context(), o)
		require.NoError(t, err)
		if asked != 1 || f.Queries != 1 {
			t.Errorf("asked %d times, counted as %d", asked, f.Queries)
		}
		for _, d := range Table {
			if d.Query != "" && !strings.Contains(f.Missing[d], c.says) {
				t.Errorf("%s: %q", d.Name, f.Missing[d])
			}
		}
	}
}

// Every query parses, with and without matchers, and the matchers are in every selector.
func TestQuestions(t *testing.T) {
	for _, d := range Table {
		if d.Query == "" || d == Retention {
			continue
		}
		for _, match := range []string{"", `cluster="a",env!~"x|y"`} {
			text := Written(d.Query, match)
			e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
			if err != nil {
				t.Errorf("%s: %v in %s", d.Name, err, text)
				continue
			}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok && match != "" {
					has := false
					for _, m := range v.LabelMatchers {
						has = has || m.Name == "cluster" && m.Value == "a"
					}
					if !has {
						t.Errorf("%s: %s is not matched", d.Name, v)
					}
				}
				return nil
			})
		}
	}
}
