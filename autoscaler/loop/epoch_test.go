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

// follower is a store of a replica that leads without a lease, as soon as it loads.
func follower(c client.Client, live client.Reader, holder string) *StatusStore {
	return NewStatusStore(c, live).Under(act.NewEpoch(act.EpochOptions{Holder: holder}))
}

func grew() (plan.Snapshot, plan.Memory) {
	return plan.Snapshot{Pools: []plan.Pool{{Name: "p"}}}, plan.Memory{LastScaleUp: []plan.Stamp{{Name: "p", At: start}}}
}

// TestOnlyTheLatestSaves: from when another has loaded, the one before it cannot
// make its memory safe, and so does not act.
func TestOnlyTheLatestSaves(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"))
	first, second := follower(c, c, "first"), follower(c, c, "second")
	load := func(s *StatusStore) {
		t.Helper()
		if _, err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	load(first)
	load(second)
	snap, memory := grew()
	before := getPool(t, c).Status
	if err := first.Save(t.Context(), snap, memory); !errors.Is(err, act.ErrDeposed) {
		t.Errorf("the first saves: %v", err)
	}
	if after := getPool(t, c).Status; !reflect.DeepEqual(before, after) {
		t.Errorf("the first wrote %+v", after.Memory)
	}
	if err := second.Save(t.Context(), snap, memory); err != nil {
		t.Error(err)
	}
	if e := getPool(t, c).Status.Memory.Epoch; e == nil || e.Term != 2 || e.Holder != "second" {
		t.Errorf("epoch %+v", e)
	}
}

// late is a reader after which something happens, once.
type late struct {
	client.Reader
	then func()
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, o, opts...)
	l.happen()
	return err
}

func (l *late) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, o, opts...)
	l.happen()
	return err
}

func (l *late) happen() {
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
}

// TestASaveUnderWayIsRefused: the first is stopped between reading the pool and
// writing it, the second takes over, the first goes on.
func TestASaveUnderWayIsRefused(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"))
	reader := &late{Reader: c}
	first := follower(c, reader, "first")
	if _, err := first.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader.then = func() {
		if _, err := follower(c, c, "second").Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	snap, memory := grew()
	if err := first.Save(t.Context(), snap, memory); err == nil {
		t.Error("the first saved")
	}
	if m := getPool(t, c).Status.Memory; m.LastScaleUp != nil || m.Epoch.Holder != "second" {
		t.Errorf("memory %+v", m)
	}
}

// TestTakingOverUnderWay: both begin at the same time; one of them leads.
func TestTakingOverUnderWay(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"))
	reader := &late{Reader: c}
	reader.then = func() {
		if _, err := follower(c, c, "second").Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := follower(c, reader, "first").Load(t.Context()); !errors.Is(err, act.ErrDeposed) {
		t.Errorf("the first leads: %v", err)
	}
	if e := getPool(t, c).Status.Memory.Epoch; e.Holder != "second" {
		t.Errorf("epoch %+v", e)
	}
}

// TestMemoryOfTheLastLeader: what it saved until the takeover is loaded, though it
// saved after the pools were listed.
func TestMemoryOfTheLastLeader(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"))
	first := follower(c, c, "first")
	if _, err := first.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := &late{Reader: c, then: func() {
		snap, memory := grew()
		if err := first.Save(t.Context(), snap, memory); err != nil {
			t.Fatal(err)
		}
	}}
	memory, err := follower(c, reader, "second").Load(t.Context())
	if err != nil || len(memory.LastScaleUp) != 1 {
		t.Errorf("loaded %+v, %v", memory, err)
	}
}
