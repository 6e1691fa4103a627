package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestCheckNamesEveryField has what the language of scenarios cannot express; the rest is in
// scenario/testdata/check_fields.txt.
func TestCheckNamesEveryField(t *testing.T) {
	nan, now := math.NaN(), time.Unix(1000, 0)
	like := func(name string) Pod { return Pod{Namespace: "a", Name: name} }
	s := Snapshot{
		Now:   now,
		Pools: []Pool{{Name: "p", PricePerHour: nan, InterruptionsPerHour: nan}, {Name: "p"}},
		Nodes: []Node{{Name: "n", GPUs: []GPU{{}, {}}}, {Name: "n"}, {Name: "m", GPUs: []GPU{{Device: gpu.Device{Index: 1}}, {Device: gpu.Device{Index: 1}}}}},
		Pods: []Pod{like("p"), like("p"), {Namespace: "a", Name: "leaves", LeavesAt: now},
			{Namespace: "a", Name: "mig", Demand: demand.Demand{MIG: []demand.Instances{{Name: "3g.40gb", Count: 1}}}}},
		Forecasts: []Forecast{{Name: "a/f", Like: like("f"), At: now, Low: nan}, {Name: "a/f", Like: like("f"), At: now},
			{Name: "a/g", Like: Pod{Namespace: "a", Name: "other", Node: "n"}, At: now}},
	}
	p := DefaultPolicy()
	require.NoError(t, p.Check())
	p.HeadroomWeight, p.DisruptionCost, p.Headroom = nan, nan, "some"
	text := s.Check().Error() + p.Check().Error()
	for _, want := range []string{
		"pools[p]: occurs twice", "pools[p].pricePerHour: is not a price: NaN", "pools[p].interruptionsPerHour: want a number from 0: NaN",
		"nodes[n]: occurs twice", "nodes[n].gpus[0]: occurs twice", "nodes[m].gpus[1]: occurs twice", "pods[a/p]: occurs twice",
		"pods[a/leaves].leavesAt: is set", "pods[a/mig].demand.mig[3g.40gb]: does not match its name", "forecasts[a/f]: occurs twice",
		"forecasts[a/f].low: want a number", "forecasts[a/g].like: want the forecast's workload, not a/other", "forecasts[a/g].like: runs or is leaving",
		"headroomWeight: want a share", "disruptionCost: want a number", `headroom: want none, low, expected or high: "some"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
	if err := (Snapshot{Now: now}).Check(); err != nil {
		t.Errorf("an empty snapshot: %v", err)
	}
}

// TestCheckOfManyPods: a snapshot is checked before each plan, and nearly all of it is valid. So a path is written only
// for a problem, and a layout is not checked again for each GPU that has it.
func TestCheckOfManyPods(t *testing.T) {
	s := largeWorld(t, 50, 0)
	allocs := testing.AllocsPerRun(3, func() { require.NoError(t, s.Check()) })
	if most := float64(len(s.Pods) + 100); allocs > most {
		t.Errorf("%.0f allocations for %d pods, at most %.0f", allocs, len(s.Pods), most)
	}
}
