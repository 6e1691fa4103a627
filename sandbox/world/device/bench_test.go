package device

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
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
	if got := number(t, c.Values, FieldGraphics); math.Abs(got-3.0/7) > 1e-3 {
		t.Errorf("GPU busy %v, want 3/7", got)
	}
	first, second := c.Instances[0].Values, c.Instances[1].Values
	if a, b := number(t, first, FieldGraphics), number(t, second, FieldGraphics); a != 1 || b != 0 {
		t.Errorf("instances busy %v and %v, want 1 and 0", a, b)
	}
	if got := c.Values[fakedcgm.Field(FieldUtil)]; got != "!unsupported" {
		t.Errorf("a partitioned GPU reports GPU_UTIL %s", got)
	}
	if used := number(t, first, FieldUsed); used < 36<<10 || used > number(t, first, FieldTotal) {
		t.Errorf("instance memory %v MiB", used)
	}
	for _, f := range []fakenvml.Lines{c.Values, first, second} {
		if number(t, f, FieldUsed)+number(t, f, FieldFree) != number(t, f, FieldTotal) {
			t.Errorf("memory does not add up: %v", f)
		}
	}
}

// number returns the value of a field.
func number(t *testing.T, values fakenvml.Lines, field uint16) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(values[fakedcgm.Field(field)], 64)
	require.NoError(t, err)
	return n
}

// TestTheDriverTakesEveryLayout: the driver's fake accepts every layout of every MIG geometry on two GPUs.
// Instance ids and profiles are the driver's.
func TestTheDriverTakesEveryLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, model := range []string{"A30-24GB", "H100-80GB", "RTX-PRO-6000-Blackwell-96GB"} {
		table, _ := mig.ForModel(model)
		for _, layout := range table.Maximal() {
			m := machine(t, model, layout.String(), 2)
			s := NewBench(time.Unix(0, 0)).Measure(m, nil, time.Unix(1, 0))
			if err := s.Write(path); err != nil || len(s.GPUs[1].Instances) != len(layout) {
				t.Fatalf("%s as %s: %+v: %v", model, layout, s.GPUs[1].Instances, err)
			}
		}
	}
}
