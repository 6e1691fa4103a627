package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// TestNominations: pods are nominated for the registered nodes that they wait for, the largest pods first, although
// pods with other requests wait too.
func TestNominations(t *testing.T) {
	now := time.Unix(1e9, 0)
	pool := func(name string, gpus int) plan.Pool {
		p := plan.Pool{Name: name, Max: 9, Target: 1, Size: 1, PricePerHour: float64(gpus), ReadyAfter: time.Minute}
		for i := range gpus {
			p.Template.GPUs = append(p.Template.GPUs, plan.GPU{Device: gpu.Device{Index: i, Model: gpu.Model{Name: "H100-80GB", Vendor: "nvidia"}}, AllocationKnown: true})
		}
		return p
	}
	pod := func(name string, gpus int, age time.Duration) plan.Pod {
		return plan.Pod{Namespace: "a", Name: name, Demand: demand.Demand{GPUs: gpus}, Unschedulable: true, Created: now.Add(-age), PendingSince: now.Add(-age)}
	}
	s := plan.Snapshot{Now: now, Pools: []plan.Pool{pool("eight", 8), pool("one", 1)},
		Nodes: []plan.Node{{Name: "n8", Pool: "eight", Created: now}, {Name: "n1", Pool: "one", Created: now}},
		Pods:  []plan.Pod{pod("small", 1, 5*time.Minute), pod("large", 8, time.Second)}}
	all := []plan.Nomination{{Pod: "a/large", Node: "n8"}, {Pod: "a/small", Node: "n1"}}
	for name, c := range map[string]struct {
		change func(*plan.Snapshot, *plan.Policy)
		want   []plan.Nomination
	}{
		"both wait":             {func(*plan.Snapshot, *plan.Policy) {}, all},
		"one has no node yet":   {func(s *plan.Snapshot, _ *plan.Policy) { s.Nodes, s.Pools[1].Size = s.Nodes[:1], 0 }, all[:1]},
		"the large one alone":   {func(s *plan.Snapshot, _ *plan.Policy) { s.Pods = s.Pods[1:] }, nil},
		"alike":                 {func(s *plan.Snapshot, _ *plan.Policy) { s.Pods[0].Demand.GPUs = 8 }, nil},
		"one has not been seen": {func(s *plan.Snapshot, _ *plan.Policy) { s.Pods[0].Unschedulable = false }, nil},
		"frozen":                {func(_ *plan.Snapshot, p *plan.Policy) { p.Freeze = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := s, plan.DefaultPolicy()
			s.Pools, s.Pods = slices.Clone(s.Pools), slices.Clone(s.Pods)
			c.change(&s, &p)
			if got := plan.Make(s, p).Nominations; !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
