package observe

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier runs PromQL queries; *prom.Client implements it.
type Querier interface {
	// Query returns the vector of promql at a time; the zero time is the server's now.
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
}

// Prometheus takes Readings in the background, so that a slow server does not delay a reconcile.
// Readings grow old, and then count as unknown.
type Prometheus struct {
	querier Querier
	trusted trust.Exporters
	every   time.Duration
	log     *slog.Logger
	latest  atomic.Pointer[Readings]
	failing atomic.Bool
	silent  atomic.Bool // the latest answers have no exporter's series
	idle    func() bool // whether answers may be older; nil for never
	maxAge  time.Duration
}

// NewPrometheus returns a reader whose Run queries once per interval, for the series of trusted
// targets.
func NewPrometheus(q Querier, trusted trust.Exporters, every time.Duration, log *slog.Logger) *Prometheus {
	return &Prometheus{querier: q, trusted: trusted, every: every, log: log}
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
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if p.due(time.Now()) {
			p.once(ctx)
		}
	}, p.every)
	return nil
}

func (p *Prometheus) once(ctx context.Context) {
	r, err := Read(ctx, p.querier, p.trusted, time.Now())
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
	p.report(len(r.nodes) > 0)
	p.latest.Store(r)
}

// report logs when the trusted exporters' series appear or disappear.
func (p *Prometheus) report(found bool) {
	switch {
	case !found && !p.silent.Swap(true):
		p.log.Warn("Prometheus has no series of a trusted exporter; allocations are unknown",
			"metric", metric.GPUAttributionAgeSeconds.Name, "exporterNamespaces", []string(p.trusted))
	case found && p.silent.Swap(false):
		p.log.Info("Prometheus has the exporters' series again")
	}
}

// aged is the value of a series that is an age or a duration up to now, the time since its scrape
// included.
func aged(selector string) string {
	return fmt.Sprintf("%[1]s + (time() - timestamp(%[1]s))", selector)
}

// computedBefore leaves out devices that compute: with the age added they would look idle since the
// scrape.
func computedBefore(selector string) string {
	return fmt.Sprintf("(%s) and (%s > 0)", aged(selector), selector)
}

func plain(selector string) string { return selector }

// Read queries everything that trusted targets report once, at one instant of Prometheus' clock. A
// partial answer is an error: what is missing must not look free.
//
// Series of other targets are left out by the queries: the owner of any scraped pod can serve series
// of these names, and too many for a complete answer.
func Read(ctx context.Context, q Querier, trusted trust.Exporters, now time.Time) (*Readings, error) {
	// A node's series have no namespace on the page, a pod's may.
	node := func(d metric.Desc, of func(string) string) string { return of(trusted.Selector(d.Name)) }
	pod := func(d metric.Desc, of func(string) string) string {
		return trusted.Query(d.Name, metric.GPUAttributionAgeSeconds.Name, of)
	}
	in := newIntake(now)
	var at time.Time // of the first answer
	for n, want := range []struct {
		take  func(*prom.Sample)
		query string
	}{
		{in.age, node(metric.GPUAttributionAgeSeconds, aged)},
		{in.info, node(metric.GPUInfo, plain)},
		{in.instanceInfo, node(metric.GPUInstanceInfo, plain)},
		{in.allocated, pod(metric.GPUHeld, plain)},
		{in.busy, pod(metric.GPUBusyRatio, plain)},
		{in.instanceBusy, pod(metric.GPUInstanceBusyRatio, plain)},
		{in.sampleAge, node(metric.GPUSampleAgeSeconds, aged)},
		{in.healthy, node(metric.GPUHealthy, plain)},
		{in.idle, pod(metric.GPUIdleSeconds, computedBefore)},
	} {
		if n > 0 && at.IsZero() {
			break // no exporter
		}
		vector, err := q.Query(ctx, want.query, at)
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", want.query, err)
		}
		if n == 0 && len(vector) > 0 {
			at = vector[0].Time
		}
		for i := range vector {
			want.take(&vector[i])
		}
	}
	return in.readings, nil
}
