package cache

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// keep refreshes one rule while it is wanted. Each rule has its own loop, so
// that a slow or broken one holds up no other.
func (c *Cache) keep(ctx context.Context, e *entry) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
		var begin opening
		for ctx.Err() == nil && !e.idle(time.Now(), c.opts.IdleAfter) {
			query, history := e.query, begin.history()
			if history {
				query = e.history
			}
			if err := c.refresh(ctx, e, query); begin.ended(history, err) && ctx.Err() == nil {
				c.log.Warn("the rule's past cannot be read: pods that fell silent before now are not known to exist",
					slog.String("rule", e.rule.Name), slog.Duration("past", signal.Forget), slog.Any("error", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(jitter(c.opts.Interval)):
			}
		}
	}
}

// jitter spreads replicas and rules apart.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

func (c *Cache) refresh(ctx context.Context, e *entry, query string) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	start := time.Now()
	vector, err := c.querier.Query(ctx, query, time.Time{})
	if ctx.Err() != nil {
		return ctx.Err() // going down: no statement about Prometheus
	}
	now := time.Now()
	c.metrics.queried(e.rule.Name, now.Sub(start), result(err))
	before := e.failure()
	if err == nil {
		c.store(e, vector, start)
	}
	e.attempted(err, now)
	c.tell(e, before, err)
	return err
}

// store swaps in the table made of an answer. start, not the end, stands for
// the moment of evaluation: a slow answer is old, and not the other way round.
func (c *Cache) store(e *entry, vector prom.Vector, start time.Time) {
	reading := signal.Reading{Evaluated: start, Now: start}
	if len(vector) > 0 {
		reading.Evaluated = vector[0].Time
	}
	next, dropped := e.table.Load().Read(samples(vector), reading)
	e.table.Store(next)
	c.answered.Store(true)
	c.metrics.read(e.rule.Name, next.Series(), dropped)
}

func samples(vector prom.Vector) []signal.Sample {
	all := make([]signal.Sample, len(vector))
	for i, s := range vector {
		all[i] = signal.NewSample(s.Labels.All(), s.Value)
	}
	return all
}

// tell logs changes only: a Prometheus that is down must not fill the log.
func (c *Cache) tell(e *entry, before, now error) {
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		c.log.Warn("query failed", slog.String("rule", e.rule.Name), slog.Any("error", now))
	case now == nil && before != nil:
		c.log.Info("query answered again", slog.String("rule", e.rule.Name))
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
