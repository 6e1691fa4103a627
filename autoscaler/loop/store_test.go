package loop

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

// follower is the store of a replica without leader election; its Load begins an epoch.
func follower(c client.Client, live client.Reader, holder string) *StatusStore {
	return NewStatusStore(c, live).Under(act.NewEpoch(act.EpochOptions{Holder: holder}))
}

// load loads the state, which makes the store's replica the leader.
func load(t *testing.T, s *StatusStore) plan.State {
	t.Helper()
	m, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func grew() (plan.Snapshot, plan.State) {
	return plan.Snapshot{Pools: []plan.Pool{{Name: "p"}}}, plan.State{LastScaleUp: []plan.Stamp{{Name: "p", At: start}}}
}

// TestOnlyTheLatestSaves: once another replica has loaded the state, the previous leader
// cannot save its own, and so does not act.
func TestOnlyTheLatestSaves(t *testing.T) {
	c := cluster(t, named("p"))
	first, second := follower(c, c, "first"), follower(c, c, "second")
	load(t, first)
	load(t, second)
	snap, state := grew()
	before := c.pool().Status
	if err := first.Save(t.Context(), snap, state); !errors.Is(err, act.ErrDeposed) {
		t.Errorf("the first saves: %v", err)
	}
	if after := c.pool().Status; !reflect.DeepEqual(before, after) {
		t.Errorf("the first wrote %+v", after.PlannerState)
	}
	if err := second.Save(t.Context(), snap, state); err != nil {
		t.Error(err)
	}
	if e := c.pool().Status.PlannerState.Epoch; e == nil || e.Term != 2 || e.Holder != "second" {
		t.Errorf("epoch %+v", e)
	}
}

// late is a reader that calls then once, after its first read.
type late struct {
	client.Reader
	then func()
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, o, opts...)
	l.callOnce()
	return err
}

func (l *late) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, o, opts...)
	l.callOnce()
	return err
}

func (l *late) callOnce() {
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
}

// TestASaveUnderWayIsRefused: the first replica is suspended between reading the pool and
// writing it; the second takes over before the first resumes.
func TestASaveUnderWayIsRefused(t *testing.T) {
	c := cluster(t, named("p"))
	reader := &late{Reader: c}
	first := follower(c, reader, "first")
	load(t, first)
	reader.then = func() { load(t, follower(c, c, "second")) }
	snap, state := grew()
	if err := first.Save(t.Context(), snap, state); err == nil {
		t.Error("the first saved")
	}
	if m := c.pool().Status.PlannerState; m.LastScaleUpTime != nil || m.Epoch.Holder != "second" {
		t.Errorf("state %+v", m)
	}
}

// TestTakingOverUnderWay: of two replicas that begin at the same time, one leads.
func TestTakingOverUnderWay(t *testing.T) {
	c := cluster(t, named("p"))
	reader := &late{Reader: c}
	reader.then = func() { load(t, follower(c, c, "second")) }
	if _, err := follower(c, reader, "first").Load(t.Context()); !errors.Is(err, act.ErrDeposed) {
		t.Errorf("the first leads: %v", err)
	}
	if e := c.pool().Status.PlannerState.Epoch; e.Holder != "second" {
		t.Errorf("epoch %+v", e)
	}
}

// TestStateOfTheLastLeader: state saved between the listing of pools and the takeover is
// loaded.
func TestStateOfTheLastLeader(t *testing.T) {
	c := cluster(t, named("p"))
	first := follower(c, c, "first")
	load(t, first)
	reader := &late{Reader: c, then: func() {
		snap, state := grew()
		if err := first.Save(t.Context(), snap, state); err != nil {
			t.Fatal(err)
		}
	}}
	if state := load(t, follower(c, reader, "second")); len(state.LastScaleUp) != 1 {
		t.Errorf("loaded %+v", state)
	}
}

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
