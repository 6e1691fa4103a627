package loop

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
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
