package explain

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
)

// cluster serves a file of testdata, a map from API paths to what they answer, as an API server
// would.
func cluster(t *testing.T, file string) Cluster {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	answers := map[string]json.RawMessage{}
	require.NoError(t, yaml.Unmarshal(raw, &answers))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[strings.TrimSuffix(r.URL.Path+"?"+r.URL.Query().Get("fieldSelector"), "?")]
		switch {
		case strings.Contains(r.URL.Path, "/namespaces/secret/"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"horizontalpodautoscalers is forbidden"}`))
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"\"` + filepath.Base(r.URL.Path) + `\" not found"}`))
		default:
			_, _ = w.Write(answer)
		}
	}))
	t.Cleanup(server.Close)
	c, err := NewCluster(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return c
}

func readWorld(t *testing.T, namespace, name string) (World, error) {
	t.Helper()
	return cluster(t, "cluster.yaml").Read(t.Context(), namespace, name, nil, nil)
}

func rules(q Querier) []Rule {
	var all []Rule
	for _, r := range signal.Builtin(45 * time.Second) {
		all = append(all, Rule{Rule: r, Source: "built in", Querier: q})
	}
	return all
}

// series of six pods: one queues, one reports NaN, one is stale, one has only
// the old name of a metric, one has ended, and one is gone.
const series = `
vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-aaaaa",job="vllm",instance="10.0.0.1:8000",model_name="m",engine="0"} 30x19
vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-bbbbb",job="vllm",instance="10.0.0.2:8000",model_name="m",engine="0"} 10x17 NaN NaN
vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-ccccc",job="vllm",instance="10.0.0.3:8000",model_name="m",engine="0"} 5x9 _x10
vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-eeeee",job="vllm",instance="10.0.0.5:8000",model_name="m",engine="0"} 99x19
vllm:num_requests_waiting{namespace="other",pod="vllm-7d4b9c-zzzzz",job="vllm",instance="10.0.0.9:8000",model_name="m",engine="0"} 99x19
vllm:num_requests_running{namespace="chat",pod="vllm-7d4b9c-aaaaa",job="vllm",instance="10.0.0.1:8000",model_name="m",engine="0"} 8x19
vllm:num_requests_running{namespace="chat",pod="vllm-7d4b9c-bbbbb",job="vllm",instance="10.0.0.2:8000",model_name="m",engine="0"} 8x19
vllm:num_requests_running{namespace="chat",pod="vllm-7d4b9c-ccccc",job="vllm",instance="10.0.0.3:8000",model_name="m",engine="0"} 4x19
vllm:num_requests_running{namespace="chat",pod="vllm-7d4b9c-fffff",job="vllm",instance="10.0.0.6:8000",model_name="m",engine="0"} 4x9 _x10
`

func explained(t *testing.T, w World, q Querier) Report {
	t.Helper()
	var r Report
	synctest.Test(t, func(t *testing.T) {
		r = Explain(t.Context(), w, Options{
			Rules: rules(q), Tolerance: hpa.DefaultTolerance, Window: hpa.DefaultWindow, APIVersion: "v1beta2",
			ViaAPI: func(_ context.Context, path string) string { return "asked for " + path },
		})
	})
	return r
}

func TestExplain(t *testing.T) {
	w, err := readWorld(t, "chat", "vllm")
	require.NoError(t, err)
	r := explained(t, w, load(t, series, nil))
	for i := range r.Metrics {
		r.Metrics[i].Query = "" // tested in adapter/signal
	}
	var text strings.Builder
	require.NoError(t, r.Text(&text))
	golden.Equal(t, "testdata/explain.txt", text.String())
	text.Reset()
	require.NoError(t, WriteJSON(&text, r))
	golden.Equal(t, "testdata/explain.json", text.String())
	for _, m := range r.Metrics {
		if at := m.Timestamp; r.At.Location() != time.UTC || at != nil && at.Location() != time.UTC {
			t.Errorf("%s: its times are of this machine's zone: %s, %s", m.Metric, r.At, at)
		}
	}
}

// Two HPAs have the same pods: the controller computes neither.
func TestExplainAmbiguous(t *testing.T) {
	w, err := readWorld(t, "chat", "vllm")
	require.NoError(t, err)
	w.HPA.Status.Conditions = append(w.HPA.Status.Conditions, autoscaling.HorizontalPodAutoscalerCondition{Reason: "AmbiguousSelector", Message: "controlled by more than one HPA"})
	if o := explained(t, w, load(t, series, nil)).Outcome; o.Desired != w.Replicas || !strings.HasPrefix(strings.Join(o.Steps, ""), "controlled by more than one HPA; so nothing changes") {
		t.Errorf("%+v", o)
	}
}

// A series that the metric's selector leaves out is no part of the answer.
func TestExplainASelector(t *testing.T) {
	w, err := readWorld(t, "chat", "vllm")
	require.NoError(t, err)
	var m autoscaling.MetricSpec
	require.NoError(t, yaml.Unmarshal([]byte(`{type: External, external: {metric: {name: queue_depth, selector: {matchLabels: {model_name: l}}}, target: {type: Value, value: 1}}}`), &m))
	w.HPA.Spec.Metrics = []autoscaling.MetricSpec{m}
	r := explained(t, w, load(t, series+`vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-ddddd",job="vllm",model_name="l",engine="0"} 4x19`, nil))
	used := 0
	for _, row := range r.Metrics[0].Samples {
		switch {
		case row.Reason == "" && row.Pod == "vllm-7d4b9c-ddddd":
			used++
		case row.Reason != "not selected" && row.Reason != "nan" && row.Reason != "stale":
			t.Errorf("%+v is part of %s", row, r.Metrics[0].Metric)
		}
	}
	if v := r.Metrics[0].Value; used != 1 || v == nil || *v != 4 {
		t.Errorf("%d series are used for %v", used, v)
	}
}

// A metric that the HPA controller cannot request has no value, and keeps the HPA from scaling down.
func TestExplainWhatTheControllerCannotAsk(t *testing.T) {
	w, err := readWorld(t, "chat", "vllm")
	require.NoError(t, err)
	for want, metric := range map[string]string{
		`metric queue_depth: values[0][model_name]: Invalid value: "meta-llama/x"`: `{type: External, external: {metric: {name: queue_depth, selector: {matchLabels: {model_name: meta-llama/x}}}, target: {type: Value, value: 1}}}`,
		`metric queue_depth: no matches for kind "Deploymen" in group "apps"`:      `{type: Object, object: {describedObject: {apiVersion: apps/v1, kind: Deploymen, name: vllm}, metric: {name: queue_depth}, target: {type: Value, value: 1}}}`,
	} {
		var m autoscaling.MetricSpec
		require.NoError(t, yaml.Unmarshal([]byte(metric), &m))
		w.HPA.Spec.Metrics = []autoscaling.MetricSpec{m}
		r := explained(t, w, load(t, series, nil))
		if x := r.Metrics[0]; !strings.HasPrefix(x.Error, want) || x.Request != "" || r.Outcome.Unknown || r.Outcome.Desired != w.Replicas {
			t.Errorf("%+v, %+v lacks %s", x, r.Outcome, want)
		}
	}
}

func TestExplainWhilePrometheusIsDown(t *testing.T) {
	w, err := readWorld(t, "chat", "vllm")
	require.NoError(t, err)
	r := explained(t, w, load(t, "", func(time.Time) bool { return true }))
	if m := r.Metrics[0]; m.Code != http.StatusServiceUnavailable || !strings.Contains(m.Error, "connection refused") || m.Value != nil {
		t.Errorf("%d %s", m.Code, m.Error)
	}
	var shown strings.Builder
	require.NoError(t, r.Text(&shown))
	says := func(text string) bool { return strings.Contains(shown.String(), text) }
	if says("no sample in the last") || says("none in this namespace") || !says("samples   unknown, since the query failed") {
		t.Errorf("what is not known is shown as missing:\n%s", shown.String())
	}
	if r.Outcome.Desired != w.Replicas || !strings.Contains(strings.Join(r.Outcome.Steps, " "), "nothing changes") {
		t.Errorf("%+v", r.Outcome)
	}
}

func TestExplainErrors(t *testing.T) {
	for _, c := range []struct{ namespace, name, want string }{
		{"chat", "vlm", "namespace chat has embed, vllm"},
		{"empty", "x", "namespace empty has none"},
		{"secret", "x", "needs the role view in that namespace"},
		{"chat", "embed", "Deployment chat/embed: reading its scale"},
	} {
		if _, err := readWorld(t, c.namespace, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s/%s: %v lacks %q", c.namespace, c.name, err, c.want)
		}
	}
}

func TestRequestsAreTheControllers(t *testing.T) {
	for file, want := range map[string]string{
		`{type: Pods, pods: {metric: {name: gpu_busy, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 1}}}`:                                         "/apis/custom.metrics.k8s.io/v1beta2/namespaces/chat/pods/*/gpu_busy?labelSelector=app%3Dvllm&metricLabelSelector=a%3Db",
		`{type: Object, object: {describedObject: {apiVersion: apps/v1, kind: Deployment, name: vllm}, metric: {name: queue_depth}, target: {type: Value, value: 1}}}`:           "/apis/custom.metrics.k8s.io/v1beta2/namespaces/chat/deployments.apps/vllm/queue_depth",
		`{type: Object, object: {describedObject: {apiVersion: v1, kind: Namespace, name: chat}, metric: {name: queue_depth}, target: {type: Value, value: 1}}}`:                 "/apis/custom.metrics.k8s.io/v1beta2/namespaces/chat/metrics/queue_depth",
		`{type: External, external: {metric: {name: queue_depth, selector: {matchExpressions: [{key: model, operator: In, values: [a, b]}]}}, target: {type: Value, value: 1}}}`: "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/queue_depth?labelSelector=model+in+%28a%2Cb%29",
	} {
		var m autoscaling.MetricSpec
		require.NoError(t, yaml.UnmarshalStrict([]byte(file), &m))
		w, err := readWorld(t, "chat", "vllm")
		require.NoError(t, err)
		a, err := w.metricOf(m)
		require.NoError(t, err)
		if got := a.path("v1beta2", w.Selector); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", file, got, want)
		}
	}
}

// The part of the page about HPAs shows what the program prints: each line of its examples is in a golden file.
func TestDocumentation(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "explain.md"))
	require.NoError(t, err)
	_, page, ok := strings.Cut(string(raw), "\n## Why does an HPA do that?\n")
	if !ok {
		t.Fatal("docs/explain.md has no half about HPAs")
	}
	known := map[string]bool{}
	for _, name := range []string{"explain.txt", "simulate.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			known[line] = true
		}
	}
	shown := 0
	for _, block := range strings.Split(page, "```text\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(example) {
			if shown++; !known[line] {
				t.Errorf("docs/explain.md shows what is printed no more: %s", line)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d lines of examples", shown)
	}
}

// TestTextIsHarmless: labels that a pod chooses, and names that a user chooses in an HPA, cannot control a terminal.
func TestTextIsHarmless(t *testing.T) {
	var b strings.Builder
	r := Report{
		Namespace: "ns", Name: "hpa", Metrics: []Metric{{Metric: "pods \x1b[2J", Rule: "queue", Samples: []Row{{Pod: "p", Labels: "model_name=\x1b]0;title\x07\u202e"}}}},
		Status: Status{Conditions: []string{"ScalingActive: \x1b[31m"}},
	}
	if err := r.Text(&b); err != nil || strings.ContainsAny(b.String(), "\x1b\x07\u202e") || !strings.Contains(b.String(), "title") {
		t.Errorf("%q, %v", b.String(), err)
	}
}
