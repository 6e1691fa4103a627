package node

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestManagerWaitsForTheExporter: mig-manager changes nothing while an exporter has the GPUs open.
func TestManagerWaitsForTheExporter(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	layout, err := mig.ParseLayout(table, "3g@0 3g@4")
	require.NoError(t, err)
	now := time.Unix(0, 0)
	m, err := New(Spec{Name: "a", Product: "NVIDIA-H100-80GB-HBM3", GPUs: 1, Layouts: []mig.Layout{layout}, Delays: DefaultDelays()}, now)
	require.NoError(t, err)
	config := []byte("version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n")
	pass := func(d time.Duration) map[string]string {
		now = now.Add(d)
		return m.StepManager("a", config, now)
	}
	m.SetExporter(true)
	labels := pass(0)
	if labels[contract.StateLabel] != contract.StatePending || !ExporterPaused(labels) {
		t.Fatalf("it begins with %v", labels)
	}
	for range 60 {
		if labels := pass(time.Second); labels != nil || len(m.GPUs()[0].Instances) != 2 {
			t.Fatalf("with an exporter on the GPUs: %v, %v", labels, m.GPUs()[0].Instances)
		}
	}
	m.SetExporter(false)
	pass(0)
	labels = pass(DefaultDelays().Apply)
	if labels[contract.StateLabel] != contract.StateSuccess || ExporterPaused(labels) || len(m.GPUs()[0].Instances) != 1 {
		t.Errorf("after its end: %v, %v", labels, m.GPUs()[0].Instances)
	}
}
