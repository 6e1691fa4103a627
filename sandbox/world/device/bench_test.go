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

func TestEnergyIsTheIntegralOfPower(t *testing.T) {
	m := machine(t, "NVIDIA-L40S", "", 1)
	b := NewBench(time.Unix(0, 0))
	sum := 0.0
	for i := 1; i <= 60; i++ {
		s := b.Measure(m, map[string]Load{m.GPUs()[0].UUID: {Busy: float64(i%2) * 0.8}}, time.Unix(int64(i), 0))
		sum += s.GPUs[0].Fields[FieldPower] * 1000
		f := s.GPUs[0].Fields
		if got := f[FieldEnergy]; math.Abs(got-sum) > 5 || f[FieldPower] < 20 {
			t.Fatalf("after %d s: %v mJ, want %v", i, got, sum)
		}
		if idle := i%2 == 0; (f[FieldClockEvents] == clocksIdle) != idle || (f[FieldUtil] == 0) != idle {
			t.Fatalf("idle %t: %v", idle, f)
		}
	}
}

// The driver's fake takes each layout of each geometry on two GPUs: instance and entity ids and
// profiles are the driver's.
func TestTheDriverTakesEveryLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, model := range []string{"A30-24GB", "H100-80GB", "RTX-PRO-6000-Blackwell-96GB"} {
		table, _ := mig.ForModel(model)
		for _, layout := range table.Maximal() {
			m := machine(t, model, layout.String(), 2)
			s := NewBench(time.Unix(0, 0)).Measure(m, nil, time.Unix(1, 0))
			last := s.GPUs[1].Instances[len(layout)-1].EntityID
			if err := s.Write(path); err != nil || last != 2*len(layout)-1 {
				t.Fatalf("%s as %s: the last entity is %d: %v", model, layout, last, err)
			}
		}
	}
}
