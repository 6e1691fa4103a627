package observe

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
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
	Querier Querier // nil for no answers
	Trusted trust.Exporters
	Every   time.Duration
	Log     *slog.Logger
	// Idle reports whether Run may skip queries, as long as the latest answers stay within MaxAge for every node: skipping
	// makes no value unknown. Nil for never.
	Idle   func() bool
	MaxAge time.Duration

	latest  atomic.Pointer[Readings]
	failing bool
	silent  bool // the latest answers have no exporter's series
}

// due reports whether it is time for the next query.
func (p *Prometheus) due(now time.Time) bool {
	last := p.latest.Load()
	if p.Idle == nil || last == nil || p.failing || !p.Idle() {
		return true
	}
	return last.oldest(p.MaxAge)+now.Sub(last.Taken)+2*p.Every > p.MaxAge // the next chance would be too late
}

// Latest returns the latest complete set of answers, nil before the first.
func (p *Prometheus) Latest() *Readings { return p.latest.Load() }

// Run queries until ctx ends. It always returns nil.
func (p *Prometheus) Run(ctx context.Context) error {
	if p.Querier == nil {
		return nil
	}
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if p.due(time.Now()) {
			p.once(ctx)
		}
	}, p.Every)
	return nil
}

func (p *Prometheus) once(ctx context.Context) {
	r, err := Read(ctx, p.Querier, p.Trusted, time.Now())
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !p.failing:
		p.Log.Warn("Prometheus does not answer; allocations become unknown", "err", err)
	case err == nil && p.failing:
		p.Log.Info("Prometheus answers again")
	}
	if p.failing = err != nil; !p.failing {
		p.report(len(r.nodes) > 0)
		p.latest.Store(r)
	}
}

// report logs when the trusted exporters' series appear or disappear.
func (p *Prometheus) report(found bool) {
	switch {
	case !found && !p.silent:
		p.Log.Warn("Prometheus has no series of a trusted exporter; allocations are unknown",
			"metric", metric.GPUAttributionAgeSeconds.Name, "exporterNamespaces", []string(p.Trusted))
	case found && p.silent:
		p.Log.Info("Prometheus has the exporters' series again")
	}
	p.silent = !found
}

// families are read in this order, once per Readings. query makes a family's PromQL from the selector of its trusted
// series.
var families = []struct {
	metric.Desc
	query func(selector string) string
}{
	{metric.GPUAttributionAgeSeconds, aged}, {metric.GPUInfo, plain}, {metric.GPUInstanceInfo, plain}, {metric.GPUHeld, plain}, {metric.GPUBusyRatio, plain},
	{metric.GPUInstanceBusyRatio, plain}, {metric.GPUSampleAgeSeconds, aged}, {metric.GPUHealthy, doubted}, {metric.GPUIdleSeconds, computedBefore},
}

const ignoringType = "ignoring (" + model.MetricTypeLabel + ", " + model.MetricUnitLabel + ")"

func plain(selector string) string { return selector }

// aged returns the query of a series whose value is an age or a duration up to now, plus the time since its scrape. It
// ignores the labels of type and unit that Prometheus adds with the feature type-and-unit-labels, since timestamp drops
// them.
func aged(selector string) string {
	return fmt.Sprintf("%[1]s + %[2]s (time() - timestamp(%[1]s))", selector, ignoringType)
}

// computedBefore leaves out devices that compute: with the age added they would look idle since the
// scrape.
func computedBefore(selector string) string {
	return fmt.Sprintf("(%s) and %s (%s > 0)", aged(selector), ignoringType, selector)
}

// doubted returns the query of health, only for the GPU indices that some target reports as sick: no decision depends
// on a healthy GPU, and nearly all are healthy. It reads all targets of such an index, since they may disagree.
func doubted(selector string) string {
	return fmt.Sprintf("%[1]s and on (%[2]s) (%[1]s == 0)", selector, metric.LabelGPU)
}

// Read queries everything that trusted targets report once, at one instant of Prometheus' clock. A
// partial answer is an error: what is missing must not look free.
//
// Series of other targets are left out by the queries: the owner of any scraped pod can serve series
// of these names, and too many for a complete answer.
func Read(ctx context.Context, q Querier, trusted trust.Exporters, now time.Time) (*Readings, error) {
	r := newReadings(now)
	var at time.Time // of the first answer
	for i, f := range families {
		if i > 0 && at.IsZero() {
			break // no exporter
		}
		query := f.query(trusted.Selector(f.Name))
		if slices.Contains(f.AllLabels(), metric.LabelNamespace) { // the exporter's own series may have this label
			query = trusted.Query(f.Name, metric.GPUAttributionAgeSeconds.Name, f.query)
		}
		vector, err := q.Query(ctx, query, at)
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", query, err)
		}
		if i == 0 && len(vector) > 0 {
			at = vector[0].Time
		}
		r.add(f.Name, vector)
	}
	return r, nil
}
