package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

// TestPlannerStateIsBounded: of the state of more nodes than a status can have, the latest is kept,
// and what is read back is what was written.
func TestPlannerStateIsBounded(t *testing.T) {
	var m plan.State
	poolOf := map[string]string{}
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for i := range 2 * v1alpha1.MaxPlannerStates {
		node := fmt.Sprintf("n-%04d", i)
		poolOf[node] = "p"
		stamp := plan.Stamp{Name: node, At: at.Add(time.Duration(i) * time.Second)}
		m.LastRepartition, m.SickSince = append(m.LastRepartition, stamp), append(m.SickSince, stamp)
		m.Failures = append(m.Failures, plan.Failure{Name: node + "/0", Count: 1, At: stamp.At})
		m.Grown, m.Removed = append(m.Grown, plan.Growth{Pool: "p", At: stamp.At, Nodes: 2}), append(m.Removed, plan.Growth{Pool: "p", At: stamp.At, Nodes: 1})
	}
	s := poolState(m, "p", poolOf, v1alpha1.PlannerState{})
	for what, n := range map[string]int{"repartitions": len(s.LastRepartitionTime), "sick nodes": len(s.SickSinceTime), "failures": len(s.Failures), "grown": len(s.Grown), "removed": len(s.Removed)} {
		if n != v1alpha1.MaxPlannerStates {
			t.Errorf("%d %s, want %d", n, what, v1alpha1.MaxPlannerStates)
		}
	}
	for what, list := range map[int][]v1alpha1.Growth{2: s.Grown, 1: s.Removed} {
		sum := 0
		for _, g := range list {
			sum += int(g.Nodes)
		}
		if sum != what*2*v1alpha1.MaxPlannerStates || !list[0].Time.Time.Equal(at.Add(v1alpha1.MaxPlannerStates*time.Second)) {
			t.Errorf("%d nodes, the first at %s: every node counts, and none for too short", sum, list[0].Time)
		}
	}
	if _, ok := s.LastRepartitionTime[fmt.Sprintf("n-%04d", 2*v1alpha1.MaxPlannerStates-1)]; !ok {
		t.Error("the latest is not kept")
	}
	again := poolState(stateOf([]v1alpha1.GPUNodePool{poolWith(s)}), "p", poolOf, s)
	if len(again.Failures) != len(s.Failures) || len(again.SickSinceTime) != len(s.SickSinceTime) {
		t.Errorf("read back: %d failures, %d sick", len(again.Failures), len(again.SickSinceTime))
	}
}

func poolWith(s v1alpha1.PlannerState) (p v1alpha1.GPUNodePool) {
	p.Name, p.Status.PlannerState = "p", s
	return p
}

// TestOperationsAreCounted: nodes that are repartitioned or drained keep the provider from changing.
func TestOperationsAreCounted(t *testing.T) {
	r := Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{
		Pools: []plan.Pool{{Name: "p"}, {Name: "q"}},
		Nodes: []plan.Node{
			{Name: "a", Pool: "p", Operation: &plan.Operation{}}, {Name: "b", Pool: "p", Drain: &plan.Draining{}}, {Name: "c", Pool: "p"}, {Name: "d", Pool: "q"},
		},
	}}}
	for name, want := range map[string]int32{"p": 2, "q": 0} {
		var pool v1alpha1.GPUNodePool
		poolFindings(r)[name].write(&pool)
		if pool.Status.Operations != want {
			t.Errorf("pool %s has %d operations, want %d", name, pool.Status.Operations, want)
		}
	}
}
