package fleet_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/fleet"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// TestCalm: while nothing happens cards are counted every 30 s, and at once when
// something does. What a count has seen is told by a price that changes each round.
func TestCalm(t *testing.T) {
	f, registry := fleet.New(), prometheus.NewRegistry()
	registry.MustRegister(f)
	f.Lead(true)
	price := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == metric.AutoscalerPoolPrice.Name {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return 0
	}
	for n, turn := range []struct {
		at   time.Duration
		calm bool
		want int // the round whose price is told
	}{
		{0, true, 0}, {10 * time.Second, true, 0}, {29 * time.Second, true, 0}, {30 * time.Second, true, 3},
		{41 * time.Second, false, 4}, {45 * time.Second, false, 4}, {52 * time.Second, true, 4},
	} {
		s := plan.Snapshot{Now: epoch.Add(turn.at), Pools: []plan.Pool{{Name: "p", Max: 1, PricePerHour: float64(1 + n)}}}
		if err := f.Observe(fleet.Round{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}, Calm: turn.calm}); err != nil {
			t.Fatal(err)
		}
		if got := price(); got != float64(1+turn.want) {
			t.Errorf("after %s the price is %v, want that of round %d", turn.at, got, turn.want)
		}
	}
}
