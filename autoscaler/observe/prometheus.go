package observe

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier asks Prometheus; *prom.Client is one.
type Querier interface {
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
}

// Prometheus asks for Readings in the background, so that a slow server never
// holds up a round. What it has grows old, and then counts as unknown.
type Prometheus struct {
	querier Querier
	every   time.Duration
	log     *slog.Logger
	latest  atomic.Pointer[Readings]
	failing atomic.Bool
	quiet   func() bool // whether answers may be older; nil for never
	maxAge  time.Duration
}

// NewPrometheus returns a reader that asks every so often once it runs.
func NewPrometheus(q Querier, every time.Duration, log *slog.Logger) *Prometheus {
	return &Prometheus{querier: q, every: every, log: log}
}

// AskRarely has Run leave out questions while quiet says so, for as long as what was
// said last is well within maxAge for every node: being quiet makes nothing unknown.
// It is set before Run.
func (p *Prometheus) AskRarely(maxAge time.Duration, quiet func() bool) {
	p.maxAge, p.quiet = maxAge, quiet
}

// due reports whether it is time to ask again.
func (p *Prometheus) due(now time.Time) bool {
	last := p.latest.Load()
	if p.quiet == nil || last == nil || p.failing.Load() || !p.quiet() {
		return true
	}
	taken := now.Sub(last.Taken)
	return taken >= p.maxAge/3 || last.oldest(p.maxAge)+taken+p.every > p.maxAge*3/4
}

// Latest returns the last whole set of answers, nil before the first.
func (p *Prometheus) Latest() *Readings { return p.latest.Load() }

// Run asks until ctx ends. It always returns nil.
func (p *Prometheus) Run(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		if p.due(time.Now()) {
			p.once(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *Prometheus) once(ctx context.Context) {
	r, err := Read(ctx, p.querier, time.Now())
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !p.failing.Swap(true) {
			p.log.Warn("Prometheus does not answer: holders will be unknown", "err", err)
		}
		return
	}
	if p.failing.Swap(false) {
		p.log.Info("Prometheus answers again")
	}
	p.latest.Store(r)
}

// Read asks once for everything, at one instant of Prometheus' clock. An answer
// that came in part is an error: what is missing must not look free.
func Read(ctx context.Context, q Querier, now time.Time) (*Readings, error) {
	const aged = "%[1]s + (time() - timestamp(%[1]s))"
	age, err := q.Query(ctx, fmt.Sprintf(aged, metric.GPUAttributionAgeSeconds.Name), time.Time{})
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", metric.GPUAttributionAgeSeconds.Name, err)
	}
	a := Answers{Age: age}
	if len(age) == 0 {
		return NewReadings(now, a), nil // no exporter
	}
	at := age[0].Time
	for _, want := range []struct {
		to    *prom.Vector
		query string
	}{
		{&a.Info, metric.GPUInfo.Name},
		{&a.InstanceInfo, metric.GPUInstanceInfo.Name},
		{&a.Held, metric.GPUHeld.Name},
		{&a.Busy, metric.GPUBusyRatio.Name},
		{&a.InstanceBusy, metric.GPUInstanceBusyRatio.Name},
		{&a.SampleAge, fmt.Sprintf(aged, metric.GPUSampleAgeSeconds.Name)},
		{&a.Healthy, metric.GPUHealthy.Name},
		// What computes is left out: aged, it would look idle since it was scraped.
		{&a.Idle, fmt.Sprintf("("+aged+") and (%[1]s > 0)", metric.GPUIdleSeconds.Name)},
	} {
		if *want.to, err = q.Query(ctx, want.query, at); err != nil {
			return nil, fmt.Errorf("asking for %s: %w", want.query, err)
		}
	}
	return NewReadings(now, a), nil
}
