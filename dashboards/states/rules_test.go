package states

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/golden"
)

// recorded are the series of a rule at the end of a state, sorted.
func recorded(t *testing.T, s State, honor bool, r rules.Rule) promql.Vector {
	t.Helper()
	v := ask(t, s, honor, r.Expr, s.End())
	slices.SortFunc(v, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
	return v
}

// Every rule's series in every state are those of testdata/rules.txt. Both ways of scraping
// give the same, no value is NaN, each label is declared, and every rule has series in some state.
func TestRules(t *testing.T) {
	var got strings.Builder
	some := map[string]bool{}
	for _, s := range All() {
		for _, r := range rules.All() {
			v := recorded(t, s, false, r)
			some[r.Record] = some[r.Record] || len(v) > 0
			fmt.Fprintf(&got, "%s %s\n", s.Name, r.Record)
			for _, one := range v {
				if math.IsNaN(one.F) || math.IsInf(one.F, 0) {
					t.Errorf("%s in %s: %s is %v", r.Record, s.Name, one.Metric, one.F)
				}
				one.Metric.Range(func(l labels.Label) {
					if l.Name != "cluster" && !slices.Contains(r.Labels, l.Name) {
						t.Errorf("%s in %s has a label %s", r.Record, s.Name, l.Name)
					}
				})
				fmt.Fprintf(&got, "  %s %.5g\n", one.Metric.MatchLabels(false, "cluster"), one.F)
			}
			if a, b := fmt.Sprint(v), fmt.Sprint(recorded(t, s, true, r)); a != b {
				t.Errorf("%s in %s:\nwithout honor_labels %s\nwith it %s", r.Record, s.Name, a, b)
			}
		}
	}
	golden.Equal(t, "testdata/rules.txt", got.String())
	xid := find(t, XID)
	for _, r := range rules.All() {
		if !some[r.Record] && len(ask(t, xid, true, r.Expr, xid.Start().Add(15*time.Minute))) == 0 {
			t.Errorf("%s has no series at the end of any state, nor in the middle of %s", r.Record, xid.Name)
		}
	}
}

// either are the rules for which one of several families is enough: GPUs or slices, one kind of server or another, a
// GPU that has lost its name, or a name of dcgm-exporter before or from 4.9.0 on. Without all of them they have no
// series.
var either = map[string][]string{
	"gpu:gpu_unhealthy:max":                   {metric.GPUInfo.Name, metric.GPUHealthy.Name},
	"node:gpu_temperature_celsius:max":        {metric.DCGMTemperature.Name, metric.DCGMTemperatureNew.Name},
	"node:gpu_memory_temperature_celsius:max": {metric.DCGMMemoryTemperature.Name, metric.DCGMMemoryTemperatureNew.Name},
	"pod:gpu_busy_ratio:avg":                  {metric.GPUBusyRatio.Name, metric.GPUInstanceBusyRatio.Name},
	"pod:llm_first_token_seconds:p95_5m":      metric.Names(rules.FirstTokens...),
	rules.SliceStanding:                       {metric.GPUInfo.Name, metric.GPUInstanceInfo.Name},
}

// Without a family the rules that read it have no series: no value becomes 0. A slice of unknown allocation is still
// shown, as unknown, which TestSlicesWithoutAttribution covers.
func TestNothingIsMadeOfNothing(t *testing.T) {
	for _, s := range All() {
		for _, r := range rules.All() {
			for _, name := range namesIn(r.Expr) {
				family := strings.TrimSuffix(name, "_bucket")
				without := s.Without(family)
				switch among := either[r.Record]; {
				case slices.Contains(among, family):
					for _, other := range among {
						without = without.Without(other)
					}
				case r.Record == rules.SliceStanding:
					continue
				}
				if v := ask(t, without, true, r.Expr, s.End()); len(v) > 0 {
					t.Errorf("%s in %s: without %s it still has %v", r.Record, s.Name, family, v)
				}
			}
		}
	}
}

// Without attribution no slice is free: slices without a pod are unknown.
func TestSlicesWithoutAttribution(t *testing.T) {
	standing, ok := rules.Find(rules.SliceStanding)
	if !ok {
		t.Fatal("there is no such rule")
	}
	kinds := func(s State) map[float64]int {
		n := map[float64]int{}
		for _, one := range ask(t, s, false, standing.Expr, s.End()) {
			if one.F > 0 {
				n[10*math.Floor(one.F/10)]++
			}
		}
		return n
	}
	s := find(t, MIG)
	whole := kinds(s)
	if whole[rules.SliceFree] == 0 || whole[rules.SliceAllocated] == 0 || whole[rules.SliceIdle] == 0 || whole[rules.SliceUnknown] > 0 {
		t.Errorf("slices by standing: %v", whole)
	}
	if n := kinds(s.Without(metric.GPUAttributionAgeSeconds.Name)); n[rules.SliceFree] > 0 || n[rules.SliceUnknown] != whole[rules.SliceFree] {
		t.Errorf("without the age of the map: %v, with it %v", n, whole)
	}
}
