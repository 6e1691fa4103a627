package device

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

func machine(t *testing.T, product, layout string, gpus int) *node.Machine {
	t.Helper()
	spec := node.Spec{Name: "a", Product: product, GPUs: gpus}
	if layout != "" {
		table, _ := mig.ForModel(product)
		l, err := mig.ParseLayout(table, layout)
		require.NoError(t, err)
		spec.Layouts = []mig.Layout{l}
	}
	m, err := node.New(spec, time.Unix(0, 0))
	require.NoError(t, err)
	return m
}

func TestPartitionedGPUSumsItsInstances(t *testing.T) {
	m := machine(t, "NVIDIA-H100-80GB-HBM3", "3g@0 3g@4", 1)
	in := m.GPUs()[0].Instances
	b := NewBench(time.Unix(0, 0))
	s := b.Measure(m, map[string]Load{in[0].UUID: {Busy: 1, MemoryBytes: 36 << 30}}, time.Unix(10, 0))
	c := s.GPUs[0]
	if got := c.Fields[FieldGraphics]; math.Abs(got-3.0/7) > 1e-3 {
		t.Errorf("GPU busy %v, want 3/7", got)
	}
	if c.Instances[0].Fields[FieldGraphics] != 1 || c.Instances[1].Fields[FieldGraphics] != 0 {
		t.Errorf("instances busy %v and %v, want 1 and 0", c.Instances[0].Fields[FieldGraphics], c.Instances[1].Fields[FieldGraphics])
	}
	if !math.IsNaN(c.Fields[FieldUtil]) {
		t.Error("a partitioned GPU reports GPU_UTIL")
	}
	if used := c.Instances[0].Fields[FieldUsed]; used < 36<<10 || used > c.Instances[0].Fields[FieldTotal] {
		t.Errorf("instance memory %v MiB", used)
	}
	for _, f := range []map[uint16]float64{c.Fields, c.Instances[0].Fields, c.Instances[1].Fields} {
		if f[FieldUsed]+f[FieldFree] != f[FieldTotal] {
			t.Errorf("memory does not add up: %v", f)
		}
	}
}

func TestClocksAreLowOnlyForWantOfWork(t *testing.T) {
	m := machine(t, "NVIDIA-L40S", "", 2)
	b := NewBench(time.Unix(0, 0))
	s := b.Measure(m, map[string]Load{m.GPUs()[0].UUID: {Busy: 1}}, time.Unix(1, 0))
	if busy, idle := s.GPUs[0].Fields[FieldClockEvents], s.GPUs[1].Fields[FieldClockEvents]; busy != 0 || idle != clocksIdle {
		t.Errorf("reasons of a busy GPU %v and an idle one %v", busy, idle)
	}
}

func TestEnergyIsTheIntegralOfPower(t *testing.T) {
	m := machine(t, "NVIDIA-L40S", "", 1)
	b := NewBench(time.Unix(0, 0))
	sum := 0.0
	for i := 1; i <= 60; i++ {
		s := b.Measure(m, map[string]Load{m.GPUs()[0].UUID: {Busy: float64(i%2) * 0.8}}, time.Unix(int64(i), 0))
		sum += s.GPUs[0].Fields[FieldPower] * 1000
		if got := s.GPUs[0].Fields[FieldEnergy]; math.Abs(got-sum) > 5 {
			t.Fatalf("after %d s: %v mJ, want %v", i, got, sum)
		}
	}
}

func TestIdleIsZeroBusyAndSomePower(t *testing.T) {
	m := machine(t, "NVIDIA-L40S", "", 2)
	s := NewBench(time.Unix(0, 0)).Measure(m, nil, time.Unix(1, 0))
	for _, c := range s.GPUs {
		if c.Fields[FieldUtil] != 0 || c.Fields[FieldPower] < 20 || c.Fields[FieldUsed] > 100 {
			t.Errorf("an idle GPU: %v", c.Fields)
		}
	}
}

func TestTheFakeTakesTheState(t *testing.T) {
	m := machine(t, "NVIDIA-H100-80GB-HBM3", "1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6", 4)
	s := NewBench(time.Unix(0, 0)).Measure(m, nil, time.Unix(1, 0))
	require.NoError(t, s.Write(filepath.Join(t.TempDir(), "state")))
	if len(s.GPUs) != 4 || len(s.GPUs[3].Instances) != 7 || s.GPUs[3].Instances[6].EntityID != 27 {
		t.Errorf("measured %+v", s)
	}
}

// The driver's fake takes each layout of each geometry: instance ids and profiles are the driver's.
func TestTheDriverTakesEveryLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, model := range []string{"A30-24GB", "H100-80GB", "RTX-PRO-6000-Blackwell-96GB"} {
		table, _ := mig.ForModel(model)
		for _, layout := range table.Maximal() {
			m := machine(t, model, layout.String(), 1)
			if err := NewBench(time.Unix(0, 0)).Measure(m, nil, time.Unix(1, 0)).Write(path); err != nil {
				t.Fatalf("%s as %s: %v", model, layout, err)
			}
		}
	}
}
