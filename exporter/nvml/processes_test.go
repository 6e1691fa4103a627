package nvml

import (
	"cmp"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

func listed(t *testing.T, p *Processes) []pods.GPU {
	t.Helper()
	gpus, err := p.Processes()
	require.NoError(t, err)
	for i := range gpus {
		slices.SortFunc(gpus[i].Processes, func(a, b pods.Process) int { return cmp.Compare(a.PID, b.PID) })
	}
	return gpus
}

func TestProcesses(t *testing.T) {
	shared, repartition, old := h100(0), repartitionGPU(1), h100(2)
	shared.Values["compute"] = "100:1048576 200:2097152 300:-"
	shared.Values["graphics"] = "200:2097152"
	shared.Values["mps"] = "400:4096"
	shared.Values["sm"] = "100:30 100:50 200:7 0:99 500:101"
	repartition.Instances[0].Values["compute"] = "700:7"
	delete(old.Values, "sm")
	old.Values["compute"] = "!3"
	o, _ := machine(t, fakenvml.State{GPUs: []fakenvml.GPU{shared, repartition, old, h100(3)}})
	p, err := NewProcesses(o)
	require.NoError(t, err)
	t.Cleanup(p.source.close)
	gpus := listed(t, p)
	if len(gpus) != 6 {
		t.Fatalf("%d GPUs and instances: %+v", len(gpus), gpus)
	}
	if c := gpus[0]; !c.BusyKnown || !c.MemoryKnown || c.UUID != fakenvml.GPUUUID(0) || c.Instance != -1 || c.Taken.IsZero() ||
		!slices.Equal(c.Processes, []pods.Process{{PID: 100, Busy: 0.4, Memory: 1 << 20}, {PID: 200, Busy: 0.07, Memory: 2 << 20}, {PID: 300, Memory: -1}, {PID: 400, Memory: 4096}}) {
		t.Errorf("shared GPU %+v", c)
	}
	if c := gpus[1]; c.BusyKnown || c.Instance != -1 {
		t.Errorf("a partitioned GPU measures no process: %+v", c)
	}
	if c := gpus[3]; c.BusyKnown || !c.MemoryKnown || c.Instance != 9 || !slices.Equal(c.Processes, []pods.Process{{PID: 700, Memory: 7}}) {
		t.Errorf("instance %+v", c)
	}
	if c := gpus[4]; c.BusyKnown || c.MemoryKnown {
		t.Errorf("a driver that reports nothing: %+v", c)
	}
	if c := gpus[5]; !c.BusyKnown || !c.MemoryKnown || len(c.Processes) != 0 {
		t.Errorf("no process: %+v", c)
	}

	for name, before := range map[string]map[int]string{"known before": p.source.gpus.uuids, "unknown before": {}} {
		p.source.gpus.uuids = before
		require.NoError(t, p.Quiesce([]string{fakenvml.GPUUUID(0), fakenvml.GPUUUID(1)}))
		if open := openFiles(t); open != "no device file is open" {
			t.Errorf("%s: released, and open: %s", name, open)
		}
		for range 2 {
			if gpus = listed(t, p); len(gpus) != 2 || gpus[0].UUID != fakenvml.GPUUUID(2) {
				t.Errorf("%s: quiesced: %+v", name, gpus)
			}
		}
		if open := openFiles(t); open != "nvidia0 nvidia1 nvidia2 nvidia2:handle nvidia3 nvidia3:handle" {
			t.Errorf("%s: open: %s", name, open)
		}
	}
	require.NoError(t, p.Quiesce([]string{fakenvml.GPUUUID(0), fakenvml.GPUUUID(1), fakenvml.GPUUUID(2), fakenvml.GPUUUID(3)}))
	if gpus, open := listed(t, p), openFiles(t); len(gpus) > 0 || open != "no device file is open" {
		t.Errorf("all released: %+v, open: %s", gpus, open)
	}
	p.busy <- struct{}{} // a call that hangs
	if p.Quiesce(nil) == nil {
		t.Error("no error while the driver hangs")
	}
}
