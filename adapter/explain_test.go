package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// explainKubeconfig names an API server with the answers of the explain package's tests.
func explainKubeconfig(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("explain", "testdata", "cluster.yaml"))
	require.NoError(t, err)
	answers := map[string]json.RawMessage{}
	require.NoError(t, yaml.Unmarshal(raw, &answers))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[strings.TrimSuffix(r.URL.Path+"?"+r.URL.Query().Get("fieldSelector"), "?")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no such thing"}`)
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL)
}

// runningRequests is a Prometheus in which one pod works on so many requests.
func runningRequests(t *testing.T, requests float64) *promtest.Server {
	t.Helper()
	server := promtest.New(t)
	part := ""
	for _, r := range signal.Builtin(45 * time.Second) {
		for i, s := range r.Sources {
			if r.Name == "requests_running" && s.Metric == "vllm:num_requests_running" {
				part = string(rune('0' + i))
			}
		}
	}
	server.Script(func(query string) promtest.Response {
		if !strings.Contains(query, "vllm:num_requests_running") {
			return promtest.Response{}
		}
		series := func(kind string, v float64) promtest.Series {
			return promtest.Series{Labels: map[string]string{"namespace": "chat", "pod": "vllm-7d4b9c-aaaaa", signal.PartLabel: kind + part}, Value: v}
		}
		return promtest.Response{Vector: []promtest.Series{series("v", requests), series("t", float64(time.Now().Unix()))}}
	})
	return server
}

func TestExplainCommand(t *testing.T) {
	server, kubeconfig := runningRequests(t, 50), explainKubeconfig(t)
	t.Setenv("PROMETHEUS_URL", server.URL)
	base := []string{"hpa", "chat/vllm", "--kubeconfig", kubeconfig, "--prometheus-url", server.URL}
	tenancy := writeFile(t, "c.yaml", []byte("prometheus: {url: '"+server.URL+"', namespaceParameter: tenant}"))
	both := writeFile(t, "both.yaml", []byte("prometheus: {url: '"+server.URL+"'}\nprometheusAdapter: {configFile: pa.yaml}"))
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"text":                              {append([]string{"explain"}, base...), []string{"answer    50, ", "proposes 9", "built in", "no older than 45s or two and a half scrape intervals and 16.5s, at most 5m0s, values", "the HPA will set 8 replicas"}},
		"address from the environment":      {append([]string{"explain"}, base[:4]...), []string{"answer    50, "}},
		"json":                              {append([]string{"explain", "-o", "json"}, base...), []string{`"version": "gpuscale.explain/v1"`, `"value": 50,`}},
		"set":                               {append([]string{"explain", "--set", "metrics[1].target.averageValue=100"}, base...), []string{"target of 100"}},
		"tenancy":                           {append([]string{"explain", "--config", tenancy}, base[:4]...), []string{"answer    50, "}},
		"beside prometheus-adapter's rules": {append([]string{"explain", "--config", both}, base[:4]...), []string{"(built in, unless pa.yaml declares a metric of this name"}},
		"via API":                           {append([]string{"explain", "--via-api"}, base...), []string{"via API   error: "}},
		"simulate": {append([]string{"simulate", "--since", "2m", "--set",
			"metrics=[{type: External, external: {metric: {name: requests_running}, target: {type: AverageValue, averageValue: 6}}}]"}, base...), []string{"replicas simulated", "replica-hours"}},
	} {
		var out, progress bytes.Buffer
		if err := run(t.Context(), c.args, &out, &progress); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, out.String())
			}
		}
		asked := server.Queries()
		if got := asked[len(asked)-1].Form.Get("tenant"); (got == "chat") != (name == "tenancy") {
			t.Errorf("%s: asked about the namespace %q", name, got)
		}
	}
}

// A metric that another server may answer is no error, and one that is not computed is not 0.
func TestWhatOthersServeIsNotJudged(t *testing.T) {
	server, kubeconfig := runningRequests(t, 50), explainKubeconfig(t)
	file := writeFile(t, "c.yaml", []byte("prometheus: {url: '"+server.URL+"'}\nforward: {external: {service: keda.keda}}\nprometheusAdapter: {configFile: pa.yaml}\n"))
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"explain", "hpa", "chat/vllm", "--kubeconfig", kubeconfig, "--config", file,
		"--set", "metrics=[{type: External, external: {metric: {name: keda_s0}, target: {type: Value, value: 6}}}]",
	}, &out, &out)
	for _, want := range []string{"unserved  no rule is called keda_s0", "pa.yaml", "forwards", "the HPA's next replicas are unknown", "1 metric not computed"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, lacks %q:\n%s", err, want, out.String())
		}
	}
	if strings.Contains(out.String(), "0 replicas\n") || strings.Contains(out.String(), "error 404") {
		t.Error(out.String())
	}
	const both = "metrics=[{type: External, external: {metric: {name: requests_running}, target: {type: Value, value: 6}}}, {type: External, external: {metric: {name: %s}, target: {type: Value, value: 6}}}]"
	simulate := func(config, other string) error {
		out.Reset()
		return run(t.Context(), []string{"simulate", "hpa", "chat/vllm", "--since", "2m", "--kubeconfig", kubeconfig, "--config", config, "--set", fmt.Sprintf(both, other)}, &out, &bytes.Buffer{})
	}
	if err := simulate(file, "keda_s0"); err != nil || !strings.Contains(out.String(), "left out: no rule is called keda_s0, but the rules of pa.yaml") {
		t.Errorf("%v\n%s", err, out.String())
	}
	alone := writeFile(t, "alone.yaml", []byte("prometheus: {url: '"+server.URL+"'}"))
	if err := simulate(alone, "keda_s0"); err == nil || !strings.Contains(err.Error(), "no rule of the adapter is called keda_s0") {
		t.Error(err)
	}
	// KEDA's own metrics server answers these, whatever is in the adapter's file.
	if err := simulate(alone, "s0-prometheus, selector: {matchLabels: {scaledobject.keda.sh/name: vllm}}"); err != nil || !strings.Contains(out.String(), "left out: s0-prometheus is KEDA's, of the ScaledObject vllm") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestExplainCommandRefuses(t *testing.T) {
	t.Setenv("PROMETHEUS_URL", "")
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	for want, args := range map[string][]string{
		"hpa NAMESPACE/NAME":                       {"explain", "hpa", "vllm"},
		"--prometheus-url: prometheus.url: scheme": {"explain", "hpa", "chat/vllm", "--prometheus-url", "localhost:9090"},
		"must not be negative":                     {"explain", "hpa", "chat/vllm", "--prometheus-url", "http://x", "--tolerance=-1"},
		"--prometheus-url is required":             {"explain", "hpa", "chat/vllm"},
		"HorizontalPodAutoscaler chat/vllm: Get":   {"explain", "hpa", "chat/vllm", "--prometheus-url", "http://x", "--timeout=1s", "--kubeconfig", kubeconfigOf(t, silent.URL)},
		"neither text nor json":                    {"explain", "hpa", "chat/vllm", "-o", "yaml"},
		"none of text, json, csv":                  {"simulate", "hpa", "chat/vllm", "-o", "yaml"},
		"neither recorded nor total":               {"simulate", "hpa", "chat/vllm", "--load", "all"},
		"which is not later":                       {"simulate", "hpa", "chat/vllm", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"},
		`for "--to" flag`:                          {"simulate", "hpa", "chat/vllm", "--to", "yesterday"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v lacks %q", args, err, want)
		}
	}
}
