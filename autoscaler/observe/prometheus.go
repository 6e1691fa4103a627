package observe

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Querier runs PromQL queries; *prom.Client implements it.
type Querier interface {
	// Each calls take for every element of the answer to promql at a time (the zero time: the
	// server's now). Labels are valid until take returns. After an error, what was taken must be
	// discarded. turn is locked while the answer is processed.
	Each(ctx context.Context, promql string, at time.Time, turn sync.Locker, take func(labels [][2][]byte, value float64, at time.Time)) error
}

// Prometheus takes Readings in the background, so that a slow server does not delay a reconcile.
// Readings grow old, and then count as unknown.
type Prometheus struct {
	querier Querier
	every   time.Duration
	log     *slog.Logger
	latest  atomic.Pointer[Readings]
	failing atomic.Bool
	idle    func() bool // whether answers may be older; nil for never
	maxAge  time.Duration
}

// NewPrometheus returns a reader whose Run queries once per interval.
func NewPrometheus(q Querier, every time.Duration, log *slog.Logger) *Prometheus {
	return &Prometheus{querier: q, every: every, log: log}
}

// AskRarely has Run skip queries while idle returns true, as long as the latest answers stay well
// within maxAge for every node: skipping makes no value unknown. Call it before Run.
func (p *Prometheus) AskRarely(maxAge time.Duration, idle func() bool) {
	p.maxAge, p.idle = maxAge, idle
}

// due reports whether it is time for the next query.
func (p *Prometheus) due(now time.Time) bool {
	last := p.latest.Load()
	if p.idle == nil || last == nil || p.failing.Load() || !p.idle() {
		return true
	}
	taken := now.Sub(last.Taken)
	return taken >= p.maxAge/3 || last.oldest(p.maxAge)+taken+p.every > p.maxAge*3/4
}

// Latest returns the latest complete set of answers, nil before the first.
func (p *Prometheus) Latest() *Readings { return p.latest.Load() }

// Run queries until ctx ends. It always returns nil.
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
			p.log.Warn("Prometheus does not answer; allocations become unknown", "err", err)
		}
		return
	}
	if p.failing.Swap(false) {
		p.log.Info("Prometheus answers again")
	}
	p.latest.Store(r)
}

// Read queries everything once, at one instant of Prometheus' clock. A partial answer is an error:
// what is missing must not look free.
func Read(ctx context.Context, q Querier, now time.Time) (*Readings, error) {
	const aged = "%[1]s + (time() - timestamp(%[1]s))"
	in := newIntake(now)
	var at time.Time // of the first answer
	var turn sync.Mutex
	var s element
	for n, want := range []struct {
		take  func(*element)
		query string
	}{
		{in.age, fmt.Sprintf(aged, metric.GPUAttributionAgeSeconds.Name)},
		{in.info, metric.GPUInfo.Name},
		{in.instanceInfo, metric.GPUInstanceInfo.Name},
		{in.allocated, metric.GPUHeld.Name},
		{in.busy, metric.GPUBusyRatio.Name},
		{in.instanceBusy, metric.GPUInstanceBusyRatio.Name},
		{in.sampleAge, fmt.Sprintf(aged, metric.GPUSampleAgeSeconds.Name)},
		{in.healthy, metric.GPUHealthy.Name},
		// Devices that compute are left out: with the age added they would look idle since the
		// scrape.
		{in.idle, fmt.Sprintf("("+aged+") and (%[1]s > 0)", metric.GPUIdleSeconds.Name)},
	} {
		if n > 0 && at.IsZero() {
			break // no exporter
		}
		if err := q.Each(ctx, want.query, at, &turn, func(labels [][2][]byte, value float64, stamp time.Time) {
			if n == 0 && at.IsZero() {
				at = stamp
			}
			s.read(labels, value)
			want.take(&s)
		}); err != nil {
			return nil, fmt.Errorf("asking for %s: %w", want.query, err)
		}
	}
	return in.readings, nil
}
