package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// TestDoctorScripts runs the command line against fake API servers: $WELL has a healthy installation, $FROZEN one with
// a frozen pool, $BROKEN one without its APIServices, $BARE nothing, $DENIED refuses every read, $EXPIRED accepts no
// caller's credentials, $SLOW does not answer about KEDA. $ANSWERS is a fake Prometheus of a healthy installation,
// $HANGS one that does not answer.
func TestDoctorScripts(t *testing.T) {
	base := installed(t)
	for _, crd := range []string{"gpunodepools", "gpuquotas"} {
		base += "\n---\n" + strings.TrimPrefix(string(mustRead(t, "../deploy/chart/gpuscale/files/crds/gpuscale.io_"+crd+".yaml")), "---\n")
	}
	withoutAPIs := slices.DeleteFunc(strings.Split(base, "\n---\n"), func(doc string) bool { return strings.Contains(doc, "kind: APIService") })
	denied := newFakeAPI(t, base)
	denied.Denied = []string{"/api/", "/apis/"}
	clusters := map[string]string{
		"WELL":   newFakeAPI(t, base).URL,
		"FROZEN": newFakeAPI(t, strings.Replace(base, "  min: 1\n", "  min: 1\n  freeze: true\n", 1)).URL,
		"BROKEN": newFakeAPI(t, strings.Join(withoutAPIs, "\n---\n")).URL,
		"BARE":   newFakeAPI(t, "").URL,
		"DENIED": denied.URL,
		"GONE":   "http://127.0.0.1:1",
	}
	expired := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`))
	}))
	t.Cleanup(expired.Close)
	clusters["EXPIRED"] = expired.URL
	prometheus := httptest.NewServer(answering(t))
	t.Cleanup(prometheus.Close)
	silent := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	slow := newFakeAPI(t, base)
	slow.Silent, slow.silent = []string{"/apis/keda.sh"}, silent
	clusters["SLOW"] = slow.URL
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(silent) })
	testscript.Run(t, testscript.Params{
		Dir: "testdata/doctor",
		Setup: func(e *testscript.Env) error {
			for name, url := range clusters {
				file := filepath.Join(e.WorkDir, strings.ToLower(name)+".kubeconfig")
				if err := os.WriteFile(file, []byte(kubeconfig(url)), 0o600); err != nil {
					return err
				}
				e.Setenv(name, file)
			}
			e.Setenv("ANSWERS", prometheus.URL)
			e.Setenv("NOWHERE", "http://127.0.0.1:1")
			e.Setenv("HANGS", hangs.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
	})
}

func kubeconfig(url string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: here, context: {cluster: c, user: u}}, {name: there, context: {cluster: c, user: u}}]
`, url)
}

// answering is a fake Prometheus that answers doctor's queries, and no others, from doctor/testdata/base.answers. Times
// are those of the request, or half a minute earlier where VictoriaMetrics (1.146) would answer so: it looks back as
// far as its -search.latencyOffset unless latency_offset sets another time.
func answering(t *testing.T) http.Handler {
	answers := map[string]promql.Vector{}
	for line := range strings.Lines(string(mustRead(t, "doctor/testdata/base.answers"))) {
		source, sample, _ := strings.Cut(strings.TrimSpace(line), ":")
		at := slices.IndexFunc(doctor.Table, func(d *doctor.Source) bool { return d.Name == "prometheus: "+source })
		query := doctor.Written(doctor.Table[at].Query, "")
		if answers[query] = slices.Grow(answers[query], 1); sample == "" {
			continue
		}
		labels, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(sample)
		require.NoError(t, err)
		answers[query] = append(answers[query], promql.Sample{Metric: labels, F: values[0].Value})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		samples, known := answers[r.FormValue("query")]
		if !known {
			http.Error(w, "query unknown to this fake", http.StatusBadRequest)
			return
		}
		now := time.Now()
		if r.FormValue("latency_offset") != "1ms" {
			now = now.Add(-30 * time.Second)
		}
		answer := promql.Vector{}
		for _, s := range samples {
			if s.T = now.UnixMilli(); s.F > 1e9 { // a moment
				s.F = float64(now.Unix())
			}
			answer = append(answer, s)
		}
		serveAnswer(w, answer, nil)
	})
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return raw
}

// installed are the objects of a healthy installation.
func installed(t *testing.T) string { return string(mustRead(t, "doctor/testdata/base.yaml")) }

func fake(t *testing.T, text string) (*fakeAPI, doctor.Options) {
	t.Helper()
	s := newFakeAPI(t, text)
	return s, doctor.Options{Kube: &rest.Config{Host: s.URL}, NoPrometheus: "none was given", Advise: advise, Sources: doctor.Sources(doctor.All())}
}

// All sources of a small cluster take few calls, all of them reads, and give all facts of checks.
func TestGather(t *testing.T) {
	s, o := fake(t, installed(t))
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	calls := s.Calls()
	if len(calls) > 45 {
		t.Errorf("%d calls, want at most 45: %q", len(calls), calls)
	}
	for _, c := range calls {
		if !strings.HasPrefix(c, "GET ") {
			t.Errorf("it does more than read: %s", c)
		}
	}
	for what, ok := range map[string]bool{
		"nodes": len(doctor.Nodes.Of(f)) == 1, "pods": len(doctor.Pods.Of(f)) == 1, "services": len(doctor.Services.Of(f)) == 1, "endpoints": len(doctor.EndpointSlices.Of(f)) == 1,
		"config": len(doctor.ConfigMaps.Of(f)) == 1, "lease": len(doctor.Leases.Of(f)) == 1, "rolebindings": len(doctor.RoleBindings.Of(f)) == 1,
		"metrics": len(doctor.CustomMetrics.Of(f)) == 2, "KEDA is absent": f.Missing[doctor.ScaledObjects.Source] == "",
		"no Prometheus": f.Missing[doctor.GPUNodes] == "none was given", "the clock": f.Local.Sub(f.Now).Abs() < 5*time.Second,
	} {
		if !ok {
			t.Errorf("%s: not so", what)
		}
	}
}

// TestPrometheusIsNotReached: however long the error is, what to do follows it whole, after a semicolon.
func TestPrometheusIsNotReached(t *testing.T) {
	_, o := fake(t, installed(t))
	client, err := prom.New(prom.Config{URL: "http://127.0.0.1:1/" + strings.Repeat("a", 400)})
	require.NoError(t, err)
	o.Prometheus = client
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	if why := f.Missing[doctor.GPUNodes]; !strings.Contains(why, "; check that the address is right") || !strings.HasSuffix(why, "svc/prometheus-operated 9090") {
		t.Error(why)
	}
}

// Lists are read page by page. An endless list ends at the bound, and is reported as partial.
func TestBounds(t *testing.T) {
	s, o := fake(t, "kind: Node")
	s.Endless = []string{"/api/v1/nodes"}
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	if n := len(doctor.Nodes.Of(f)); n != 20_000 || !strings.Contains(f.Missing[doctor.Nodes.Source], "only the first 20000") {
		t.Errorf("%d nodes, %q", n, f.Missing[doctor.Nodes.Source])
	}
}

// Each missing right is named, and no other fact is lost.
func TestForbidden(t *testing.T) {
	objects := installed(t)
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} { // these are read if an Event names them
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
		if want := "you lack permission to " + d.Right(); f.Missing[d] != want {
			// Objects that other facts name are not read if those facts cannot be read.
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
	s, o = fake(t, "")
	s.names["/version"] = "<html>"
	if _, err := doctor.Gather(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not JSON") {
		t.Errorf("a web page: %v", err)
	}
	o.Kube = &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := doctor.Gather(t.Context(), o); err == nil {
		t.Error("connection refused")
	}
	// A server that stops halfway: the remaining facts are reported as missing.
	s, o = fake(t, installed(t))
	s.Broken = []string{"/api/v1/nodes"}
	f, err := doctor.Gather(t.Context(), o)
	require.NoError(t, err)
	if !strings.Contains(f.Missing[doctor.Nodes.Source], "etcd is away") {
		t.Errorf("nodes: %q", f.Missing[doctor.Nodes.Source])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := doctor.Gather(ctx, o); err == nil {
		t.Error("its time was over before it began")
	}
}

// A Prometheus that is unreachable, refuses --match, or has series of several clusters, is queried once.
func TestPrometheusAway(t *testing.T) {
	for status, c := range map[int]struct{ body, says string }{
		http.StatusServiceUnavailable: {"starting up", "HTTP 503"},
		http.StatusBadRequest:         {`{"status":"error","errorType":"bad_data","error":"1:35: parse error: unexpected identifier"}`, "--match takes matchers"},
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
