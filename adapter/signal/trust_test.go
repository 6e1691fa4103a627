package signal

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

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

// An exporter in another namespace is not believed; the answer says which are.
func TestTheErrorNamesTheTrustedNamespaces(t *testing.T) {
	rule := builtin(t, "gpu_busy")
	rule.Exporters = []string{"gpuscale-system"}
	m := load(t, `gpu_busy_ratio{namespace="monitoring",pod="x",exported_namespace="chat",exported_pod="a",gpu_uuid="A"} .5x4`)
	table, _, now := askFor(t, m, NewTable(rule), rule.Query("chat"), 4*step)
	if _, err := table.Pod(Key{"chat", "a"}, anything, now); err == nil || !strings.Contains(err.Error(), "exporters in namespace gpuscale-system are believed") {
		t.Errorf("%v", err)
	}
	rule.Exporters = []string{"gpuscale-system", "monitoring"}
	table, _, now = askFor(t, m, NewTable(rule), rule.Query("chat"), 4*step)
	if a, err := table.Pod(Key{"chat", "a"}, anything, now); err != nil || a.Value != .5 {
		t.Errorf("listed: %+v, %v", a, err)
	}
}
