package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm"
	"github.com/gpuscale/gpuscale/exporter/nvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// refusing is a source with an error only.
type refusing struct{ err error }

func (*refusing) Watch([]uint16, time.Duration, map[uint16]time.Duration) {}
func (*refusing) Close() error                                            { return nil }
func (r *refusing) Read() (*collect.Reading, error)                       { return nil, r.err }

// A missing driver is reported at once: retries do not help.
func TestCheckOfAnAbsentDriver(t *testing.T) {
	for _, absent := range []error{dcgm.ErrNoDriver, nvml.ErrNoDriver} {
		k := checker{config: &config{intervalMS: 100}}
		if _, err := k.firstReading(t.Context(), &refusing{fmt.Errorf("reading: %w", absent)}, nil); !errors.Is(err, absent) || strings.Contains(err.Error(), "no values within") {
			t.Errorf("want %v at once, got %v", absent, err)
		}
	}
}

// TestPage: docs/exporter.md shows the output of check for eight GPUs with seven instances each, whose host engine may
// not profile, on a node whose kubelet does not answer. A recording stands for the host engine.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/exporter.md")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	fleet := "- gpus:\n"
	for gpu := range 8 {
		fleet += fmt.Sprintf("  - gpu: %d\n    uuid: GPU-%d\n    mig: true\n    gpuMaxCompute: 7\n    values: {DCGM_FI_DEV_POWER_USAGE: 71}\n    instances:\n", gpu, gpu)
		for i := range 7 {
			fleet += fmt.Sprintf("    - {instanceID: %d, profile: 1g.10gb, values: {DCGM_FI_DEV_FB_USED: 1}}\n", 7+i)
		}
	}
	write(t, "fleet.yaml", fleet)
	write(t, "counters.csv", "DCGM_FI_DEV_POWER_USAGE, gauge, Power.\nDCGM_FI_DEV_FB_USED, gauge, Memory in use.\nDCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Use.\n")
	var out, log strings.Builder
	check := newCommand(func(string) (string, bool) { return "", false })
	check.SetOut(&out)
	check.SetErr(&log)
	check.SetArgs([]string{"check", "-k", "-f", "counters.csv", "--replay", "fleet.yaml"})
	if err := check.ExecuteContext(t.Context()); !errors.Is(err, errCheckFailed) {
		t.Errorf("error %v", err)
	}
	_, shown, ok := strings.Cut(string(page), "    $ gpuscale-exporter check -k -f counters.csv\n")
	if !ok {
		t.Fatal("docs/exporter.md shows no check")
	}
	shown, _, _ = strings.Cut(shown, "\n\n")
	var want []string
	for line := range strings.Lines(shown + "\n") {
		want = append(want, strings.Replace(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".*", 1))
	}
	if got := strings.Replace(out.String(), "recording:", "DCGM, embedded:", 1); !regexp.MustCompile(`^` + strings.Join(want, "\n") + `\n$`).MatchString(got) {
		t.Errorf("docs/exporter.md shows another check than\n%s", got)
	}
	if log.Len() > 0 {
		t.Errorf("the log repeats a finding: %s", log.String())
	}
}

// Without DCGM a GPU is not profiled for other reasons than with it.
func TestCheckOfProfiling(t *testing.T) {
	r := &collect.Reading{Entities: []collect.Entity{{Kind: collect.GPU}}}
	for source, want := range map[string]string{sourceNVML: "needs DCGM, or a GPU from Hopper on", "DCGM, embedded": "SYS_ADMIN"} {
		k := checker{}
		k.profiling(r, source)
		if why := k.found[0].Why; k.found[0].Status != statusMissing || !strings.Contains(why, want) || strings.Contains(why, "SYS_ADMIN") != (want == "SYS_ADMIN") {
			t.Errorf("%s: %+v, want %q", source, k.found, want)
		}
	}
}

// Beside HAMi the kubelet's ids are tokens, and the pods' annotations name the GPUs, as when the exporter runs. An API
// server that refuses is reported.
func TestCheckAsksTheAPIServer(t *testing.T) {
	r := &collect.Reading{Entities: []collect.Entity{
		{Kind: collect.GPU, UUID: "GPU-a"}, {Kind: collect.Instance, InstanceUUID: "MIG-11111111-0000-0000-0000-000000000000"},
	}}
	for status, want := range map[int]string{http.StatusOK: "ok <nil>", http.StatusForbidden: "failed GET /api/v1/pods: "} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"namespace":"batch","name":"train-0",
				"annotations":{"hami.io/vgpu-devices-allocated":"GPU-a,NVIDIA,1,1:;"}},"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}]}`)
		}))
		defer server.Close()
		file := filepath.Join(t.TempDir(), "kubeconfig")
		write(t, file, "{contexts: [{name: a, context: {cluster: a}}], current-context: a, clusters: [{name: a, cluster: {server: '"+server.URL+"'}}]}")
		t.Setenv("KUBECONFIG", file)
		k := checker{log: slog.New(slog.DiscardHandler), config: &config{
			intervalMS: 1000, node: "node-1", kubernetes: true, kubeletSocket: serveKubelet(t), fractionalGPUs: true,
		}}
		api := k.kubelet(t.Context(), r)
		if got := fmt.Sprint(k.found[0].Status, " ", api); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %s, want %s; %+v", status, got, want, k.found)
		}
		k.config.nodeCondition = true
		if err := k.ownNode(t.Context()); (err == nil) != (status == http.StatusOK) || err != nil && !strings.HasPrefix(err.Error(), "GET /api/v1/nodes/node-1: ") {
			t.Errorf("%d: its own Node: %v", status, err)
		}
	}
}
