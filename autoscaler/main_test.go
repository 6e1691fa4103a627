package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestChartKnowsTheFields: the chart's schema has the fields of this configuration, so that Helm refuses others.
func TestChartKnowsTheFields(t *testing.T) {
	const file = "../deploy/chart/gpuscale/values.schema.json"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	made, err := chart.Configured(text, "autoscalerConfig", reflect.TypeFor[Config]())
	require.NoError(t, err)
	golden.Equal(t, file, made)
}

func TestGoodConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no good files: %v", err)
	}
	for _, file := range files {
		if _, err := load(file); err != nil {
			t.Error(err)
		}
	}
}

// TestBadConfigs: the error of a bad file has the texts of its lines "# want ".
func TestBadConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		_, err := load(file)
		if err == nil {
			t.Errorf("%s was accepted", file)
			continue
		}
		text, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatal(readErr)
		}
		wants := 0
		for _, line := range strings.Split(string(text), "\n") {
			want, ok := strings.CutPrefix(line, "# want ")
			if !ok {
				continue
			}
			wants++
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in\n%v", file, want, err)
			}
		}
		if wants == 0 {
			t.Errorf("%s has no line \"# want \"", file)
		}
	}
}

// TestEveryPolicyFieldIsChecked: every field has a name in the file, every number and duration bounds, and the error that name.
func TestEveryPolicyFieldIsChecked(t *testing.T) {
	require.NoError(t, defaultConfig().Validate())
	for i := range reflect.TypeFor[plan.Policy]().NumField() {
		bad := plan.DefaultPolicy()
		field := reflect.TypeFor[plan.Policy]().Field(i)
		switch f := reflect.ValueOf(&bad).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			if field.Tag.Get("json") == "" {
				t.Errorf("%s has no name", field.Name)
			}
			continue
		case reflect.String:
			f.SetString("none of them")
		case reflect.Float64:
			f.SetFloat(-1)
		default:
			f.SetInt(-1)
		}
		if bad.ExpendablePodsPriorityCutoff == -1 { // negative ones exist
			bad.ExpendablePodsPriorityCutoff = math.MinInt64
		}
		c := defaultConfig()
		c.Policy = bad
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "policy."+field.Tag.Get("json")+": ") {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		files, _ := filepath.Glob("testdata/" + dir + "/*.yaml")
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(text)
		}
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = parse("c.yaml", text)
	})
}

func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand(&out, &errs)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestRead(t *testing.T) {
	const want = "pool p max=4\n"
	for what, text := range map[string][]byte{
		"plain":                []byte(want),
		"with a mark":          []byte("\ufeff" + want),
		"packed":               packed(t, want),
		"packed with its mark": packed(t, "\ufeff"+want),
	} {
		if got, err := read(bytes.NewReader(text), "-"); got != want || err != nil {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	if got, err := read(strings.NewReader(""), "-"); got != "" || err != nil {
		t.Errorf("nothing: got %q, %v", got, err)
	}
	for _, broken := range [][]byte{packed(t, want)[:4], packed(t, strings.Repeat(want, 100))[:30]} {
		if got, err := read(bytes.NewReader(broken), "-"); err == nil {
			t.Errorf("truncated: got %q", got)
		}
	}
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-autoscaler": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitsWith,
		},
	})
}

// exitsWith runs the program and compares its exit code: code 3 plan -f FILE.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args...")
	}
	err := ts.Exec("gpuscale-autoscaler", args[1:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	if got != args[0] && got != "exit status "+args[0] {
		ts.Fatalf("got %s, want %s", got, args[0])
	}
}

// file writes a file and returns its path.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

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

// still is a cluster without changes.
type still struct{ seen plan.Snapshot }

func (s still) Observe(context.Context, time.Time) (observe.Observation, error) {
	return observe.Observation{Snapshot: s.seen}, nil
}
func (s still) Load(context.Context) (plan.State, error) { return s.seen.State, nil }
func (still) Save(context.Context, plan.Snapshot, plan.State) (map[string]error, error) {
	return nil, nil
}
func (still) Apply(context.Context, plan.Snapshot, plan.Plan) []act.Result { return nil }

// reconciled is a loop after one reconcile of the snapshot.
func reconciled(t *testing.T, s plan.Snapshot, policy plan.Policy, registry prometheus.Registerer) *loop.Loop {
	t.Helper()
	w := still{s}
	l := loop.New(loop.Options{Observer: w, Actor: w, Store: w, Policy: policy, Registry: registry})
	require.NoError(t, l.Once(t.Context()))
	return l
}

// fromHere is a local request, as through kubectl port-forward.
func fromHere(t *testing.T, path string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost:9402"
	return r
}

// TestPanicIsAScenario: the snapshot of a panic is served and can be planned again.
func TestPanicIsAScenario(t *testing.T) {
	snapshot, policy, err := scenario.Parse("tick at=2026-11-21T09:00:00Z\npool p max=2 gpus=1 model=L40S\npod a/b requests=gpu\n")
	require.NoError(t, err)
	w := still{snapshot}
	l := loop.New(loop.Options{Observer: w, Actor: w, Store: w, Policy: policy,
		Plan: func(plan.Snapshot, plan.Policy) plan.Plan { panic("two\nlines") }})
	mux := http.NewServeMux()
	routes(mux, l.State, policy, guard{})
	get := func(path string, want int) string {
		t.Helper()
		r := httptest.NewRecorder()
		mux.ServeHTTP(r, fromHere(t, path))
		if r.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, r.Code, want, r.Body)
		}
		return r.Body.String()
	}
	get("/debug/snapshot", http.StatusServiceUnavailable)
	get("/debug/panic", http.StatusServiceUnavailable)
	if l.Once(t.Context()) == nil {
		t.Fatal("the reconcile succeeded")
	}
	get("/debug/plan", http.StatusServiceUnavailable)
	for _, path := range []string{"/debug/snapshot", "/debug/panic"} {
		back, _, err := scenario.Parse(get(path, http.StatusOK))
		if err != nil || scenario.Print(back) != scenario.Print(snapshot) {
			t.Errorf("%s does not read back: %v", path, err)
		}
	}
	if text := get("/debug/panic", http.StatusOK); !strings.Contains(text, "# lines") || !strings.Contains(text, "main_test.go") {
		t.Errorf("no panic value or no stack:\n%s", text)
	}
}

// TestABugReportGivesTheSamePlan: the snapshot of /debug/snapshot includes the policy and
// gives the same plan.
func TestABugReportGivesTheSamePlan(t *testing.T) {
	snapshot, _, err := scenario.Parse("tick at=2026-11-21T09:00:00.123456789Z\npool p max=9 price=2 gpus=1 model=L40S\n" +
		"pod a/b requests=gpu\npod a/c requests=gpu\npod a/d requests=gpu\n")
	require.NoError(t, err)
	policy := plan.DefaultPolicy()
	policy.MaxNodesPerScaleUp = 2 // of three that are needed
	l := reconciled(t, snapshot, policy, nil)
	mux := http.NewServeMux()
	routes(mux, l.State, policy, guard{})
	r := httptest.NewRecorder()
	mux.ServeHTTP(r, fromHere(t, "/debug/snapshot"))
	report := file(t, t.TempDir(), "report.txt", r.Body.String())
	last, _ := l.State.Last()
	if len(last.Plan.Actions) != 1 || last.Plan.Actions[0].To != 2 {
		t.Fatalf("planned by the loop:\n%s", last.Plan)
	}
	for form, write := range outputs {
		var want strings.Builder
		require.NoError(t, write(&want, last.Plan))
		if got, err := runCommand(t, "plan", "-f", report, "-o", form); err != nil || got != want.String() {
			t.Errorf("-o %s: %v, got\n%s\nwant\n%s", form, err, got, want.String())
		}
	}
}

// TestSilentAPIServer: the start does not wait for ever for an API server that does not answer.
func TestSilentAPIServer(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer server.Close()
	defer close(over)
	mapper, err := boundedMapper(10*time.Millisecond)(&rest.Config{Host: server.URL}, &http.Client{})
	require.NoError(t, err)
	if _, err = mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()); err == nil || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("got %v", err)
	}
}

// TestEventsAreProtobuf: a burst of pods is as many Events, and JSON would be much of their cost.
func TestEventsAreProtobuf(t *testing.T) {
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case sent <- r.Header.Get("Content-Type"):
		default:
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	recorder, err := newRecorder(t.Context(), &rest.Config{Host: server.URL}, scheme.New(), prometheus.NewRegistry())
	require.NoError(t, err)
	recorder.Event(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "a"}}, corev1.EventTypeNormal, "Reason", "note")
	if got := <-sent; got != k8sruntime.ContentTypeProtobuf {
		t.Errorf("content type %q", got)
	}
}
