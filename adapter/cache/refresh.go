package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// keep refreshes one question while it is requested. Each has its own loop, so
// that a slow or broken one delays no other.
func (c *Cache) keep(ctx context.Context, e *entry) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
		c.attend(ctx, e)
		if !e.pinned {
			c.leave(ctx, e)
			return
		}
	}
}

// attend refreshes e each interval until it is idle or ctx ends.
func (c *Cache) attend(ctx context.Context, e *entry) {
	begin := opening{over: e.History == ""}
	for ctx.Err() == nil {
		opts := c.plan.Load().opts
		if e.idle(time.Now(), opts.IdleAfter) {
			return
		}
		query, history := e.Query, begin.history()
		if history {
			query = e.History
		}
		if err := c.refresh(ctx, e, query); begin.ended(history, err) && ctx.Err() == nil {
			c.log.Warn("history cannot be read: pods that stopped reporting before now are unknown",
				slog.String("rule", e.Rule), slog.Duration("past", signal.Forget), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(jitter(opts.Interval)):
		}
	}
}

// leave removes an idle question.
func (c *Cache) leave(ctx context.Context, e *entry) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := e.key(); c.asked[k] == e {
		delete(c.asked, k)
	}
	e.stop() // releases the context
}

// jitter spreads the queries of replicas and questions over time.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

func (c *Cache) refresh(ctx context.Context, e *entry, query string) error {
	b := c.plan.Load().backends[e.Backend]
	if b == nil {
		err := fmt.Errorf("backend %q: %w", e.Backend, errNoBackend)
		e.attempted(err)
		return err
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	start := time.Now()
	build, err := c.ask(ctx, b.Querier, e, query, start)
	if ctx.Err() != nil {
		return ctx.Err() // shutting down: not a failure of Prometheus
	}
	c.metrics.queried(e.Question, time.Since(start), result(err))
	before := e.failure()
	if err == nil {
		err = c.store(e, build)
	}
	e.attempted(err)
	c.logChange(e, before, err)
	return err
}

// builder makes the next state from a complete answer.
type builder func(previous any) (next any, series int, dropped map[signal.Reason]int)

// ask sends a query. The time of evaluation is start, not the end: a slow
// answer is older, never younger.
func (c *Cache) ask(ctx context.Context, q Querier, e *entry, query string, start time.Time) (build builder, err error) {
	reading := signal.Reading{Evaluated: start, Now: start}
	s, streams := q.(Streamer)
	if !streams || e.Intake == nil {
		vector, err := q.Query(ctx, query, time.Time{})
		if len(vector) > 0 {
			reading.Evaluated = vector[0].Time
		}
		return func(previous any) (any, int, map[signal.Reason]int) { return e.Build(previous, vector, reading) }, err
	}
	defer c.caught(e, &err)
	e.Intake.Begin()
	first := true
	err = s.Each(ctx, query, time.Time{}, &c.lock, func(labels [][2][]byte, value float64, at time.Time) {
		if first {
			reading.Evaluated, first = at, false
		}
		e.Intake.Add(labels, value)
	})
	return func(previous any) (any, int, map[signal.Reason]int) { return e.Intake.Build(previous, reading) }, err
}

// store replaces the state with the one built from an answer.
func (c *Cache) store(e *entry, build builder) (err error) {
	defer c.caught(e, &err)
	c.lock.Lock()
	defer c.lock.Unlock()
	next, series, dropped := build(e.latest.Load().value)
	e.latest.Store(&answer{value: next, at: time.Now(), series: series, dropped: dropped})
	c.answered.Store(true)
	c.metrics.read(e.Rule, dropped)
	return nil
}

// caught turns a panic into an error: an unforeseen answer must break its own
// rule only.
func (c *Cache) caught(e *entry, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("reading the answer: %v", p)
		c.log.Error("panic while reading an answer: this is a bug", slog.String("rule", e.Rule),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// logChange logs changes only: an unavailable Prometheus must not fill the log.
func (c *Cache) logChange(e *entry, before, now error) {
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		c.log.Warn("query failed", slog.String("rule", e.Rule), slog.String("backend", e.Backend), slog.Any("error", now))
	case now == nil && before != nil:
		c.log.Info("query answered again", slog.String("rule", e.Rule), slog.String("backend", e.Backend))
	}
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, prom.ErrPartial):
		return "partial"
	}
	return "error"
}
