package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestHealth: ready means that the node's annotation matches the GPUs.
func TestHealth(t *testing.T) {
	now := start
	h := newHealth(defaultConfig())
	h.now = func() time.Time { return now }
	says := func(err error, want string) {
		t.Helper()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	says(h.Ready(), "not been reported yet")
	h.ticked(errors.New("the API server is away"))
	says(h.Ready(), "the API server is away")
	h.published(nil)
	says(h.Ready(), "")
	h.published(errors.New("the driver does not answer"))
	says(h.Ready(), "the driver does not answer")
	h.published(nil)
	now = now.Add(h.stale + time.Second)
	says(h.Ready(), "were reported")
	h.Waiting()
	says(h.Ready(), "another agent")
}

// TestHealthOfATick: the effect of a tick on the health.
func TestHealthOfATick(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	a := b.agent()
	if err := a.Tick(t.Context()); err != nil || a.Health.Ready() != nil {
		t.Errorf("%v, ready: %v", err, a.Health.Ready())
	}
	b.config.CallTimeout = metav1.Duration{Duration: 100 * time.Millisecond}
	b.driver = nil
	b.state.Lines = fakenvml.Lines{"hang_ms": "3600000"}
	b.set(b.state)
	a = b.agent()
	require.NoError(t, a.Tick(t.Context()))
	if err := a.Health.Ready(); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("ready with a driver that hangs: %v", err)
	}
	b.answersAgain()
}

// TestMetrics: one operation that succeeds, one that is refused, one that fails and is undone;
// every series of the catalogue exists, with its labels.
func TestMetrics(t *testing.T) {
	const before, after = "1g.10gb@4 1g.10gb@5", "2g.20gb@4"
	b := newBench(t, h100(t, 0, before), h100(t, 1, "-"))
	registry := prometheus.NewRegistry()
	b.metrics = newMetrics(registry)
	b.order(before, after)
	b.tick()
	b.state = b.machine()
	b.order(before, after, func(r *contract.Record) { r.ID = "op-2" }) // it is repartitioned already
	b.tick()
	b.order(after, before, func(r *contract.Record) { r.ID = "op-3" })
	b.state.Lines = fakenvml.Lines{"fail.nvmlDeviceCreateGpuInstanceWithPlacement": "23 1"}
	b.state.GPUs[1].Lost = true
	b.set(b.state)
	b.tick()

	got := values(t, registry)
	for series, want := range map[string]float64{
		"gpuscale_agent_operations_total phase=repartition result=done":    1,
		"gpuscale_agent_operations_total phase=repartition result=refused": 1,
		"gpuscale_agent_operations_total phase=repartition result=failed":  1,
		"gpuscale_agent_operations_total phase=restore result=done":        1,
		"gpuscale_agent_nvml_errors_total reason=no_free_slices":           1,
		"gpuscale_agent_nvml_errors_total reason=hanging":                  0,
		"gpuscale_agent_gpus state=mig":                                    1,
		"gpuscale_agent_gpus state=unreadable":                             1,
		"gpuscale_agent_gpus state=whole":                                  0,
		"gpuscale_agent_permitted":                                         1,
		"gpuscale_agent_last_report_timestamp_seconds":                     float64(start.Unix()),
		"gpuscale_agent_step_duration_seconds verb=destroy":                3,
		"gpuscale_agent_step_duration_seconds verb=plugin":                 2,
		"gpuscale_agent_step_duration_seconds verb=exporter":               2,
		"gpuscale_agent_step_duration_seconds verb=create":                 3, // of the failed operation, and of its undo
	} {
		if have, ok := got[series]; !ok || have != want {
			t.Errorf("%s: %v (there: %v), want %v", series, have, ok, want)
		}
	}
	if got["gpuscale_agent_nvml_errors_total reason=lost"] == 0 {
		t.Error("the GPU that fell off was not counted")
	}
	families, _ := registry.Gather()
	for _, d := range metric.Of(metric.Agent) {
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == d.Name })
		if i < 0 {
			t.Errorf("%s is not there", d.Name)
			continue
		}
		labels := []string{}
		for _, l := range families[i].GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		want := slices.Sorted(slices.Values(d.Labels))
		if slices.Sort(labels); !slices.Equal(labels, want) {
			t.Errorf("%s has labels %q, the catalogue says %q", d.Name, labels, want)
		}
	}
}

// values of all series, by name and labels; of a histogram the count.
func values(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestConfig(t *testing.T) {
	text, err := yaml.Marshal(defaultConfig())
	require.NoError(t, err)
	if _, err := parseConfig("c.yaml", text); err != nil {
		t.Errorf("the default: %v", err)
	}
	for text, want := range map[string]string{
		"callTimeout: 0s": "callTimeout: 0s: want 1s", "exporter: {by: mail}": `exporter.by: "mail"`, "kubeletSocket: ''": "kubeletSocket",
		"devicePlugin: {selector: ''}": "devicePlugin.selector", "devicePlugin: {selector: 'a in ('}": "devicePlugin.selector",
		"fixedDrivers: [new]": "fixedDrivers[0]", "freese: true": `unknown field "freese"`, "period: {}": "c.yaml:1: period: is a mapping, not text or a duration such as 5s", "exporter: {socket: ''}": "exporter.socket",
		"devicePlugin: {namespace: ''}": "devicePlugin.namespace",
	} {
		if _, err := parseConfig("c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFixedDrivers(t *testing.T) {
	for driver, want := range map[string]bool{
		"580.159.03": true, "580.159.02": false, "580.160": true, "535.309.01": true, "535.308.99": false, "570.211.01": false,
		"595.71.05": true, "600.1.1": true, "590.48.01": false, "": false, "580.x": false, "0600.1": false,
	} {
		if err := fixed(driver, nil); (err == nil) != want {
			t.Errorf("%q: %v, want fixed %v", driver, err, want)
		}
	}
	if err := fixed("570.211.02", []string{"570.211.02"}); err != nil {
		t.Errorf("named: %v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("freeze: true\nfixedDrivers: [570.240.01]\nexporter: {by: none}"))
	f.Add([]byte("period: 10s"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig("c.yaml", text)
		if err != nil {
			return
		}
		again, err := yaml.Marshal(c)
		require.NoError(t, err)
		if _, err := parseConfig("c.yaml", again); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, again)
		}
	})
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte(`{"ok":true}`))
	f.Add([]byte(`{"ok":false,"error":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if readReply(bytes.NewReader(line)) == nil && !strings.Contains(strings.ToLower(string(line)), "true") {
			t.Errorf("%q counts as done", line)
		}
	})
}

// file writes a file and returns its path.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// agentOn runs an agent on a machine without a driver, whose API server has no nodes. It
// returns what the agent serves, by path.
func agentOn(t *testing.T, listen func(dir string) string) (get func(path string) (int, string), end func() error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent-*") // a socket's path must be short
	require.NoError(t, err)
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
