package rules_test

import (
	"math"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Without attribution no slice is free: those without a pod are unknown.
func TestSlicesWithoutAttribution(t *testing.T) {
	s, ok := states.Find(states.MIG)
	if !ok {
		t.Fatal("there is no such state")
	}
	standing, ok := rules.Find(rules.SliceStanding)
	if !ok {
		t.Fatal("there is no such rule")
	}
	kinds := func(s states.State) map[float64]int {
		n := map[float64]int{}
		for _, one := range evaluate(t, s.Storage(false), standing, s.End()) {
			if one.F > 0 {
				n[10*math.Floor(one.F/10)]++
			}
		}
		return n
	}
	whole := kinds(s)
	if whole[rules.SliceFree] == 0 || whole[rules.SliceAllocated] == 0 || whole[rules.SliceIdle] == 0 || whole[rules.SliceUnknown] > 0 {
		t.Errorf("slices by standing: %v", whole)
	}
	if n := kinds(s.Without(metric.GPUAttributionAgeSeconds.Name)); n[rules.SliceFree] > 0 || n[rules.SliceUnknown] != whole[rules.SliceFree] {
		t.Errorf("without the age of the map: %v, with it %v", n, whole)
	}
}
