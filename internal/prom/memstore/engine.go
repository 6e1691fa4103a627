package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// NewEngine returns Prometheus's engine with the limits, the look-back and the
// interval of evaluation that Prometheus has by default. It reads queries with p, or as Prometheus does
// without feature flags if p is nil.
func NewEngine(p parser.Parser) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 2 * time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
		// A subquery without a step, [5m:], has that of the rules' evaluation.
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
}

// Instant evaluates a query at a time and returns what Prometheus would, with its
// warnings. A scalar and a range of values are errors, as is what cannot be parsed.
func Instant(ctx context.Context, engine *promql.Engine, over storage.Queryable, query string, at time.Time) (promql.Vector, annotations.Annotations, error) {
	q, err := engine.NewInstantQuery(ctx, over, nil, query, at)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	vector, err := result.Vector()
	if err != nil {
		return nil, nil, err
	}
	return slices.Clone(vector), result.Warnings, nil // closing takes the memory back
}

// Samples is a vector as our client of Prometheus reads it.
func Samples(vector promql.Vector, at time.Time) prom.Vector {
	out := make(prom.Vector, 0, len(vector))
	for _, s := range vector {
		out = append(out, prom.Sample{Labels: prom.FromMap(s.Metric.Map()), Value: s.F, Time: at})
	}
	return out
}
