package loop

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

// Observer sees the cluster; *observe.Observer is one.
type Observer interface {
	Observe(ctx context.Context, now time.Time) (observe.Observation, error)
}

// Actor carries out plans; *act.Actor is one.
type Actor interface {
	Apply(ctx context.Context, s plan.Snapshot, p plan.Plan) []act.Result
	Resume(ctx context.Context, now time.Time) error
}

// Store keeps the planner's memory; *StatusStore is one.
type Store interface {
	Load(ctx context.Context) (plan.Memory, error)
	// Save returns once the memory is safe. It writes nothing where nothing
	// changed.
	Save(ctx context.Context, s plan.Snapshot, m plan.Memory) error
}

// Publisher tells people about a round; *Announcer is one.
type Publisher interface {
	Publish(ctx context.Context, r Round)
}

// Options of a Loop. Wake, Publisher and Log may be nil.
type Options struct {
	Observer  Observer
	Actor     Actor
	Store     Store
	Publisher Publisher
	Policy    plan.Policy
	// Plan is the planner, nil for plan.Make.
	Plan func(plan.Snapshot, plan.Policy) plan.Plan
	// DryRun keeps memory from being written; the Actor and the Publisher have
	// switches of their own.
	DryRun bool
	// Interval between rounds, 0 for 1 s.
	Interval time.Duration
	// Quiet is the interval after a round that found nothing to do and nothing that
	// is about to change, until Changed says that something did; what is not above
	// Interval turns that off.
	Quiet   time.Duration
	Changed <-chan struct{}
	// Wake starts a round early, after Settle: what made one pod wait often
	// makes ten more wait a moment later.
	Wake   <-chan struct{}
	Settle time.Duration
	// Now is the clock, nil for time.Now.
	Now     func() time.Time
	Metrics *Metrics
	Log     *slog.Logger
}

// Round is what happened in one turn.
type Round struct {
	observe.Observation
	Plan    plan.Plan
	Results []act.Result
}

// Loop runs rounds, one at a time.
type Loop struct {
	o      Options
	memory plan.Memory
	loaded bool
	begun  map[string]bool // actions under way that have been logged
	State  *State
}

// New returns a Loop that has not turned yet.
func New(o Options) *Loop {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Plan == nil {
		o.Plan = plan.Make
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics != nil {
		o.Metrics.ages.clock(o.Now)
	}
	return &Loop{o: o, State: newState(o.Interval, o.Now)}
}

// Run turns until ctx ends and always returns nil: a round that fails is
// logged, counted and followed by the next.
func (l *Loop) Run(ctx context.Context) error {
	l.State.lead(true)
	defer l.State.lead(false)
	l.o.Metrics.leader(true)
	defer l.o.Metrics.leader(false)
	timer, ended := time.NewTimer(0), time.Time{}
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-l.o.Changed: // the pause is over, but not the interval
			l.State.waits(l.o.Interval)
			timer.Reset(max(0, l.o.Interval-time.Since(ended)))
			continue
		case <-l.o.Wake:
			if !l.settle(ctx) {
				return nil
			}
		}
		err := l.Once(ctx)
		if err != nil && ctx.Err() == nil {
			l.o.Log.Error("round failed", "err", err)
		}
		ended = time.Now()
		pause := l.pause(err)
		l.State.waits(pause)
		timer.Reset(pause)
	}
}

// Once turns once. Nothing is done unless the memory of it is safe.
func (l *Loop) Once(ctx context.Context) (err error) {
	defer func() {
		l.State.turned(err)
		l.o.Metrics.round(err, l.o.Now())
	}()
	if !l.loaded {
		if l.memory, err = l.o.Store.Load(ctx); err != nil {
			return fmt.Errorf("loading memory: %w", err)
		}
		l.loaded = true
	}
	round, err := l.decide(ctx)
	if err != nil {
		return err
	}
	if err := l.act(ctx, &round); err != nil {
		return err
	}
	l.State.keep(round)
	if err := l.o.Metrics.publish(round, l.o.Now()); err != nil {
		l.o.Log.Warn("counting the fleet failed", "err", err)
	}
	published := l.o.Now()
	if l.o.Publisher != nil {
		l.o.Publisher.Publish(ctx, round)
	}
	l.o.Metrics.phase("publish", l.o.Now().Sub(published))
	return nil
}

// decide observes and plans. A snapshot that cannot be true is not planned on.
func (l *Loop) decide(ctx context.Context) (Round, error) {
	started := l.o.Now()
	seen, err := l.o.Observer.Observe(ctx, started)
	if err != nil {
		return Round{}, fmt.Errorf("observing: %w", err)
	}
	observed := l.o.Now()
	l.o.Metrics.phase("observe", observed.Sub(started))
	l.o.Metrics.observed(started, seen.ReadingsAge)
	seen.Memory = l.memory
	made, err := l.plan(seen.Snapshot)
	if err != nil {
		return Round{}, err
	}
	round := Round{Observation: seen, Plan: made}
	l.o.Metrics.phase("plan", l.o.Now().Sub(observed))
	return round, nil
}

// act makes the memory safe, finishes what was begun and carries out the plan.
func (l *Loop) act(ctx context.Context, round *Round) error {
	started := l.o.Now()
	if !l.o.DryRun {
		if err := l.o.Store.Save(ctx, round.Snapshot, round.Plan.Memory); err != nil {
			return fmt.Errorf("persisting memory: %w", err)
		}
	}
	l.memory = round.Plan.Memory
	if err := l.o.Actor.Resume(ctx, round.Now); err != nil {
		l.o.Log.Error("resuming operations failed", "err", err)
	}
	round.Results = l.o.Actor.Apply(ctx, round.Snapshot, round.Plan)
	l.logAll(round.Results)
	l.o.Metrics.phase("act", l.o.Now().Sub(started))
	return nil
}

// logAll says what was done. What takes several rounds is said when it begins;
// that it still does, or that something no longer holds, is for debugging.
func (l *Loop) logAll(results []act.Result) {
	begun := map[string]bool{}
	for _, r := range results {
		level := slog.LevelInfo
		switch r.Outcome {
		case act.Failed:
			level = slog.LevelError
		case act.Refused:
			level = slog.LevelDebug
		case act.Waiting:
			key := underWay(r.Action)
			if begun[key] = true; l.begun[key] {
				level = slog.LevelDebug
			}
		}
		l.log(level, r)
	}
	l.begun = begun
}

func (l *Loop) log(level slog.Level, r act.Result) {
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
