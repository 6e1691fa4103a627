package signal

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

const maxAge = 15 * time.Second

func builtin(t testing.TB, name string) Rule {
	t.Helper()
	for _, r := range Builtin(maxAge) {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no built-in rule %s", name)
	return Rule{}
}

func TestMilliNeverWrapsNorVanishes(t *testing.T) {
	for v, want := range map[float64]int64{
		0: 0, 1: 1000, .0004: 1, -.0004: -1, .0015: 2, 1e300: math.MaxInt64, -1e300: math.MinInt64,
		math.Inf(1): math.MaxInt64, 9.3e15: math.MaxInt64, MaxValue: MaxValue * 1000,
	} {
		if got, ok := Milli(v); !ok || got != want {
			t.Errorf("Milli(%g) = %d, want %d", v, got, want)
		}
	}
	if _, ok := Milli(math.NaN()); ok {
		t.Error("NaN became a quantity")
	}
}

func TestValidateSaysEverything(t *testing.T) {
	err := Rule{Name: "a b", Sources: []Source{{Metric: "\xff", Idle: &Idle{By: []string{""}}}}, Minimum: 1, Window: -1}.Validate()
	for _, field := range []string{"name:", "subject:", "duplicates:", "perPod:", "perWorkload:", "maximum:", "maxAge:", "window:", "sources[0].metric:", "sources[0].idle.by[0]:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v lacks %s", err, field)
		}
	}
}

// A sum is 0 for a workload scaled to zero; an average is none.
func TestAWorkloadScaledToZero(t *testing.T) {
	for _, rule := range Builtin(maxAge) {
		amount := slices.Contains([]string{"queue_depth", "requests_running"}, rule.Name)
		if zero := rule.AtZero; amount != (zero != nil) || amount && *zero != 0 {
			t.Errorf("%s: %v, want 0: %t", rule.Name, zero, amount)
		}
	}
}

// TestPodCannotReportAnotherNamespace: a tenant's page claims to be the
// exporter of a victim's GPU, in every way a page can.
func TestPodCannotReportAnotherNamespace(t *testing.T) {
	rule := builtin(t, "gpu_busy")
	rule.Exporters = []string{"gpu-operator"}
	now := time.Unix(1_700_000_000, 0)
	metricOf := func(value float64, pairs ...string) []Sample {
		of := func(part string, v float64) Sample {
			return Sample{Part: part, Labels: labels.FromStrings(pairs...), Value: v}
		}
		return []Sample{of("v0", value), of("t0", float64(now.Unix()))}
	}
	honest := metricOf(0.5, "namespace", "gpu-operator", "pod", "dcgm", "exported_namespace", "victim", "exported_pod", "x", "gpu_uuid", "GPU-1")
	honoured := metricOf(0.4, "namespace", "search", "pod", "y", "gpu_uuid", "GPU-2")
	own := metricOf(0.3, "namespace", "tenant", "pod", "t", "exported_namespace", "tenant", "exported_pod", "z", "gpu_uuid", "GPU-3")
	hostile := [][]Sample{
		metricOf(0, "namespace", "tenant", "pod", "t", "exported_namespace", "victim", "exported_pod", "x", "gpu_uuid", "GPU-9"),
		metricOf(1, "namespace", "tenant", "pod", "t", "exported_namespace", "victim", "exported_pod", "x", "gpu_uuid", "GPU-1"),
		metricOf(1, "namespace", "tenant", "pod", "t", "exported_namespace", "victim", "gpu_uuid", "GPU-1"),
		metricOf(1, "namespace", "", "pod", "t", "exported_namespace", "victim", "exported_pod", "x", "gpu_uuid", "GPU-1"),
		metricOf(1, "namespace", "gpu-operator2", "pod", "t", "exported_namespace", "victim", "exported_pod", "x", "gpu_uuid", "GPU-1"),
	}
	samples := append(append(honest, honoured...), own...)
	for _, h := range hostile {
		samples = append(samples, h...)
	}
	table, dropped := NewTable(rule).Read(samples, Reading{Evaluated: now, Now: now})
	if dropped[Untrusted] != len(hostile) {
		t.Errorf("dropped %v, want %d untrusted", dropped, len(hostile))
	}
	for k, want := range map[Key]float64{{"victim", "x"}: 0.5, {"search", "y"}: 0.4, {"tenant", "z"}: 0.3} {
		if a, err := table.Pod(k, anything, now); err != nil || a.Value != want {
			t.Errorf("%v: %v, %v, want %v", k, a.Value, err, want)
		}
	}
}
