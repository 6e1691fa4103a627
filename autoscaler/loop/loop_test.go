package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// onePending is a pool that has to grow for one pod.
const onePending = `
tick at=2026-11-21T09:00:00Z
pool p max=4 price=2 gpus=1 model=H100-80GB
pod chat/a requests=gpu pending=10s
`

// rig runs a Loop over the simulated cluster and records its steps.
type rig struct {
	t        *testing.T
	world    sim.World
	log      []string
	failing  map[string]error
	ignored  observe.Ignored
	exceeded []observe.Exceeded
	loop     *Loop
	metrics  *prometheus.Registry
}

func newRig(t *testing.T, text string, change func(*Options)) *rig {
	t.Helper()
	snapshot, policy, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, world: sim.World{State: snapshot}, failing: map[string]error{}, metrics: prometheus.NewRegistry()}
	o := Options{
		Observer: r, Actor: r, Store: r, Policy: policy, Metrics: NewMetrics(r.metrics),
		Now: func() time.Time { return r.world.State.Now },
	}
	if change != nil {
		change(&o)
	}
	r.loop = New(o)
	return r
}

func (r *rig) note(what string) error {
	r.log = append(r.log, what)
	return r.failing[what]
}

func (r *rig) Observe(context.Context, time.Time) (observe.Observation, error) {
	s := r.world.Snapshot()
	s.State = plan.State{}
	return observe.Observation{Snapshot: s, Ignored: r.ignored, Exceeded: r.exceeded}, r.note("observe")
}

func (r *rig) Load(context.Context) (plan.State, error) { return plan.State{}, r.note("load") }

func (r *rig) Save(_ context.Context, _ plan.Snapshot, m plan.State) error {
	if len(m.LastScaleUp) > 0 {
		return r.note("save scale-up")
	}
	return r.note("save")
}

func (r *rig) Resume(context.Context, time.Time) error { return r.note("resume") }

func (r *rig) Apply(_ context.Context, _ plan.Snapshot, p plan.Plan) []act.Result {
	var results []act.Result
	for _, a := range p.Actions {
		_ = r.note("act " + string(a.Verb))
		results = append(results, act.Result{Action: a, Outcome: act.Done})
	}
	if err := r.world.Apply(p); err != nil {
		r.t.Error(err)
	}
	return results
}

// want reconciles once and compares the error and the steps.
func (r *rig) want(err error, steps ...string) {
	r.t.Helper()
	r.log = nil
	if got := r.loop.Once(r.t.Context()); !errors.Is(got, err) {
		r.t.Errorf("err = %v, want %v", got, err)
	}
	if !slices.Equal(r.log, steps) {
		r.t.Errorf("did %q, want %q", r.log, steps)
	}
}

func TestPersistedBeforeActed(t *testing.T) {
	r := newRig(t, onePending, nil)
	r.want(nil, "load", "observe", "save scale-up", "resume", "act scale-up")
	r.world.Advance(time.Second)
	r.want(nil, "observe", "save scale-up", "resume")
	reconcile, ok := r.loop.State.Last()
	if !ok || len(reconcile.State.LastScaleUp) != 1 {
		t.Errorf("state %+v is not passed to the next reconcile", reconcile.State)
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_reconciles_total Reconciles (observe, plan, act), by result: "ok" or "error".
# TYPE gpuscale_autoscaler_reconciles_total counter
gpuscale_autoscaler_reconciles_total{result="ok"} 2
`), "gpuscale_autoscaler_reconciles_total"); err != nil {
		t.Error(err)
	}
}

func TestNoActionUnlessStateIsPersisted(t *testing.T) {
	r := newRig(t, onePending, nil)
	lost := errors.New("etcd is away")
	r.failing["save scale-up"] = lost
	r.want(lost, "load", "observe", "save scale-up")
	r.failing = map[string]error{"observe": lost}
	r.want(lost, "observe")
	r.failing = nil
	r.want(nil, "observe", "save scale-up", "resume", "act scale-up")
}

// TestSkippedSteps: the steps under a freeze, in a dry run, and if the state cannot be
// loaded.
func TestSkippedSteps(t *testing.T) {
	lost := errors.New("forbidden")
	newRig(t, onePending, func(o *Options) { o.Policy.Freeze = true }).want(nil, "load", "observe", "save", "resume")
	newRig(t, onePending, func(o *Options) { o.DryRun = true }).want(nil, "load", "observe", "resume", "act scale-up")
	r := newRig(t, onePending, nil)
	r.failing["load"] = lost
	r.want(lost, "load")
	r.want(lost, "load")
}

func TestImpossibleSnapshotIsNotActedOn(t *testing.T) {
	r := newRig(t, onePending, nil)
	r.world.State.Pools = append(r.world.State.Pools, r.world.State.Pools[0])
	r.log = nil
	if err := r.loop.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "pools[p]: is there twice") {
		t.Errorf("err = %v", err)
	}
	if !slices.Equal(r.log, []string{"load", "observe"}) {
		t.Errorf("did %q", r.log)
	}
}

func TestLiveAndReady(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newState(time.Second, func() time.Time { return now })
	if s.Live() != nil || s.Ready() != nil {
		t.Error("a replica that does not lead is live and ready")
	}
	s.lead(true)
	if s.Ready() == nil {
		t.Error("ready without a reconcile")
	}
	s.ended(nil)
	s.keep(Reconcile{})
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	now = now.Add(45 * time.Second) // four providers that hang for ten seconds each
	if err := s.Live(); err != nil {
		t.Error(err)
	}
	now = now.Add(time.Minute)
	if s.Live() == nil {
		t.Error("live though no reconcile has ended for minutes")
	}
	s.ended(errors.New("x"))
	if s.Live() != nil || s.Ready() == nil {
		t.Error("after a failed reconcile: want live and not ready")
	}
}

type publishFunc func()

func (p publishFunc) Publish(context.Context, Reconcile) { p() }
