package loop

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// Observer takes snapshots of the cluster; *observe.Observer is one.
type Observer interface {
	Observe(ctx context.Context, now time.Time) (observe.Observation, error)
}

// Actor carries out plans; *act.Actor is one.
type Actor interface {
	Apply(ctx context.Context, s plan.Snapshot, p plan.Plan) []act.Result
}

// Store persists the planner's state; *StatusStore is one.
type Store interface {
	// Load returns what was saved.
	Load(ctx context.Context) (plan.State, error)
	// Save returns once the state is persisted. It writes changes only. Unsaved are the pools whose state the
	// API server refuses to store; no action may be taken on them.
	Save(ctx context.Context, s plan.Snapshot, m plan.State) (unsaved map[string]error, err error)
}

// Publisher publishes the result of a reconcile; *ClusterPublisher is one.
type Publisher interface {
	Publish(ctx context.Context, r Reconcile)
}

// Options of a Loop. Waker, Publisher, Registry and Log may be nil.
type Options struct {
	Observer  Observer
	Actor     Actor
	Store     Store
	Publisher Publisher
	Policy    plan.Policy
	// Plan is the planner, nil for plan.Make.
	Plan func(plan.Snapshot, plan.Policy) plan.Plan
	// DryRun keeps the state from being persisted; the Actor has an option of its own,
	// and the Publisher is to be nil.
	DryRun bool
	// Interval between reconciles, 0 for 1 s.
	Interval time.Duration
	// IdleInterval is the interval after an idle reconcile, which found nothing to do and nothing about to change. A
	// change in the cluster ends it early. Where no provider gives notices of interruptions, the interval is three
	// times as long. While pods are pending and nothing is under way, the interval is five times Interval, at most
	// IdleInterval. Only a pod that becomes unschedulable, or a changed spec, ends that early. A value not above
	// Interval turns both off.
	IdleInterval time.Duration
	// Waker starts a reconcile early, for pods after Settle: they often become pending together.
	Waker  *Waker
	Settle time.Duration
	// Now is the clock, nil for time.Now.
	Now func() time.Time
	// Registry exposes the loop's series.
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Reconcile is the result of one reconcile.
type Reconcile struct {
	observe.Observation
	Plan    plan.Plan
	Results []act.Result
	// Unsaved are the pools whose state the API server does not store, and why. No action is taken on them.
	Unsaved map[string]error
	// Plans plans for another snapshot under the same policy.
	Plans func(plan.Snapshot) (plan.Plan, error)
}

// Loop runs reconciles, one at a time.
type Loop struct {
	o        Options
	state    plan.State
	loaded   bool
	waves    int           // reconciles in a row that pods woke, each less than Interval after the one before
	failures int           // reconciles in a row that failed
	failed   string        // the last one's error
	repeated kube.Repeated // problems of objects, and why the state of pools was not saved
	metrics  *metrics
	State    *State
}

// New returns a Loop that has not reconciled yet.
func New(o Options) *Loop {
	o.Interval = cmp.Or(o.Interval, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Waker == nil {
		o.Waker = NewWaker()
	}
	if o.Plan == nil {
		o.Plan = plan.Make
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return &Loop{o: o, repeated: kube.Repeated{}, State: &State{interval: o.Interval, now: o.Now}, metrics: newMetrics(o.Registry, o.Now)}
}

// Run reconciles until ctx ends and returns nil. A failed reconcile is counted and followed by the next one. It is
// logged unless the one before failed for the same reason.
func (l *Loop) Run(ctx context.Context) error {
	l.Lead(true)
	defer l.Lead(false)
	timer, ended, isIdle := time.NewTimer(0), time.Time{}, false
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			l.waves = 0
		case <-l.o.Waker.changed: // ends the idle interval, not the interval
			if isIdle {
				l.State.set(func(s *State) { s.pause = l.o.Interval })
				timer.Reset(max(0, l.o.Interval-time.Since(ended)))
			}
			continue
		case <-l.o.Waker.urgent:
			if time.Since(ended) >= l.o.Interval {
				l.waves = 0
			}
			if !l.settle(ctx) {
				return nil
			}
			l.waves++
		}
		err := l.Once(ctx)
		l.report(ctx, err)
		ended = time.Now()
		var pause time.Duration
		pause, isIdle = l.pause(err)
		l.State.set(func(s *State) { s.pause = pause })
		timer.Reset(pause)
	}
}

// report logs the result of a reconcile if it differs from the last one's.
func (l *Loop) report(ctx context.Context, err error) {
	switch {
	case err != nil:
		l.failures++
		if err.Error() != l.failed && ctx.Err() == nil {
			l.o.Log.Error("reconcile failed", "err", err)
		}
		l.failed = err.Error()
	case l.failures > 0:
		l.o.Log.Info("reconcile succeeded again", "failures", l.failures)
		l.failures, l.failed = 0, ""
	}
}

// Lead sets whether this replica leads, as Run does while it runs: only a leader has the series
// of the fleet.
func (l *Loop) Lead(leading bool) {
	l.State.set(func(s *State) { s.leading, s.last = leading, s.now() })
	l.metrics.leader(leading)
}

// Once reconciles once. No action is taken before the plan's state is persisted.
func (l *Loop) Once(ctx context.Context) (err error) {
	defer func() {
		l.State.ended(err)
		l.metrics.reconcile(err, l.o.Now())
	}()
	if !l.loaded {
		if l.state, err = l.o.Store.Load(ctx); err != nil {
			return fmt.Errorf("loading the state: %w", err)
		}
		l.loaded = true
	}
	reconcile, err := l.decide(ctx)
	if err != nil {
		return err
	}
	if err := l.act(ctx, &reconcile); err != nil {
		return err
	}
	l.State.set(func(s *State) { s.reconcile, s.snapshot = &reconcile, &reconcile.Snapshot })
	l.metrics.publish(reconcile, l.o.Now())
	published := l.o.Now()
	if l.o.Publisher != nil {
		l.o.Publisher.Publish(ctx, reconcile)
	}
	l.metrics.phase("publish", l.o.Now().Sub(published))
	return nil
}

// decide observes and plans. What does not pass the planner's check is set apart.
func (l *Loop) decide(ctx context.Context) (Reconcile, error) {
	started := l.o.Now()
	seen, err := l.o.Observer.Observe(ctx, started)
	if err != nil {
		return Reconcile{}, fmt.Errorf("observing: %w", err)
	}
	observed := l.o.Now()
	l.metrics.phase("observe", observed.Sub(started))
	l.metrics.ages.observed(started, seen.ReadingsAge)
	l.metrics.reports(seen.Ignored, seen.Exceeded)
	seen.State = l.state
	if err := l.contain(&seen); err != nil {
		return Reconcile{}, err
	}
	made, err := l.plan(seen.Snapshot)
	if err != nil {
		return Reconcile{}, err
	}
	reconcile := Reconcile{Observation: seen, Plan: made, Plans: l.plan}
	l.metrics.phase("plan", l.o.Now().Sub(observed))
	return reconcile, nil
}

// contain sets apart the objects that fail the planner's check, and logs each of them once: everything else is planned
// for. It returns an error if the snapshot is still invalid.
func (l *Loop) contain(seen *observe.Observation) error {
	seen.Snapshot, seen.Contained = seen.Snapshot.Contain()
	for i, p := range seen.Contained {
		if l.repeated.New(p.Err, seen.Now) && i < maxContained {
			l.o.Log.Warn("invalid object left out", "kind", p.Kind, "name", p.Name, "err", p.Err)
		}
		if p.Kind == plan.KindPool {
			if seen.Invalid == nil {
				seen.Invalid = map[string]error{}
			}
			seen.Invalid[p.Name] = p.Err
		}
	}
	l.metrics.containedObjects(seen.Contained)
	if len(seen.Contained) == 0 {
		return nil
	}
	if err := seen.Check(); err != nil {
		return fmt.Errorf("checking the snapshot: %w", err)
	}
	return nil
}

// maxContained bounds the invalid objects of a reconcile that are logged, and that have an Event.
const maxContained = 20

// act persists the state and carries out the plan.
func (l *Loop) act(ctx context.Context, reconcile *Reconcile) error {
	started := l.o.Now()
	if !l.o.DryRun {
		var err error
		if reconcile.Unsaved, err = l.o.Store.Save(ctx, reconcile.Snapshot, reconcile.Plan.State); err != nil {
			return fmt.Errorf("persisting the state: %w", err)
		}
		l.leaveUnsaved(reconcile)
	}
	l.state = reconcile.Plan.State
	reconcile.Results = l.o.Actor.Apply(ctx, reconcile.Snapshot, reconcile.Plan)
	for _, r := range reconcile.Results {
		l.log(r)
	}
	l.metrics.phase("act", l.o.Now().Sub(started))
	return nil
}

// leaveUnsaved removes the actions on pools with unsaved state from a plan and from the plan's state: an action that is
// not taken uses up no limit and begins no cooldown.
func (l *Loop) leaveUnsaved(reconcile *Reconcile) {
	unsaved := reconcile.Unsaved
	l.metrics.unsaved.Set(float64(len(unsaved)))
	for _, pool := range slices.Sorted(maps.Keys(unsaved)) {
		if l.repeated.New(unsaved[pool], reconcile.Now) {
			l.o.Log.Error("the state of a pool is not saved; no action is taken on it", "pool", pool, "err", unsaved[pool])
		}
	}
	if len(unsaved) == 0 {
		return
	}
	nodes := map[string]bool{}
	for i := range reconcile.Nodes {
		if n := &reconcile.Nodes[i]; unsaved[n.Pool] != nil {
			nodes[n.Name] = true
		}
	}
	reconcile.Plan.Actions = slices.DeleteFunc(reconcile.Plan.Actions, func(a plan.Action) bool { return unsaved[a.Pool] != nil || nodes[a.Node] })
	reconcile.Plan.State = reconcile.Plan.State.Without(reconcile.State, func(pool string) bool { return unsaved[pool] != nil }, func(node string) bool { return nodes[node] })
}

// log logs a result. An action that takes several reconciles, or goes on failing, is logged at its
// beginning and its end; its continuation, and refused actions, are logged at debug level.
func (l *Loop) log(r act.Result) {
	level := slog.LevelInfo
	switch {
	case r.Outcome == act.Refused || r.Continued:
		level = slog.LevelDebug
	case r.Outcome == act.Failed:
		level = slog.LevelError
	}
	attrs := []any{"verb", r.Action.Verb, "outcome", r.Outcome, "reason", r.Action.Reason, "detail", r.Action.Detail,
		"pool", r.Action.Pool, "node", r.Action.Node, "for", len(r.Action.For)}
	if r.Action.Pod != "" {
		attrs = append(attrs, "pod", r.Action.Pod)
	}
	if r.Action.Verb == plan.ScaleUp {
		attrs = append(attrs, "from", r.Action.From, "to", r.Action.To)
	}
	if r.Err != nil {
		attrs = append(attrs, "err", r.Err)
	}
	l.o.Log.Log(context.Background(), level, "action", attrs...)
}
