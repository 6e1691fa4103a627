package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// NewEngine returns Prometheus's engine with Prometheus's default limits, lookback
// and evaluation interval. It parses queries with p; nil is a parser without
// feature flags.
func NewEngine(p parser.Parser) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 2 * time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
		// A subquery without a step, [5m:], has the rules' evaluation interval.
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
	return slices.Clone(vector), result.Warnings, nil // Close reuses the memory
}

// Server answers over a storage as prom.Client does over a Prometheus.
type Server struct {
	Data   storage.Queryable
	Engine *promql.Engine
	// Now is the time of queries without one.
	Now time.Time
	// Fail, if not nil, is called before each query, with its time or its first time.
	Fail func(query string, at time.Time) error
}

// Over returns a Server with Prometheus' engine.
func Over(data storage.Queryable) Server { return Server{Data: data, Engine: NewEngine(nil)} }

func (s Server) fails(query string, at time.Time) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(query, at)
}

// Query evaluates an instant query. For a query with warnings the error is a [*prom.PartialError].
// The samples are in the order of their labels.
func (s Server) Query(ctx context.Context, query string, at time.Time) (prom.Vector, error) {
	at = cmp.Or(at, s.Now)
	if err := s.fails(query, at); err != nil {
		return nil, err
	}
	vector, warnings, err := Instant(ctx, s.Engine, s.Data, query, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", prom.ErrBadQuery, err)
	}
	if err := partial(warnings, query); err != nil {
		return nil, err
	}
	out := make(prom.Vector, 0, len(vector))
	for _, s := range vector {
		if s.H != nil {
			return nil, fmt.Errorf("%w: the answer holds a native histogram", prom.ErrBadQuery)
		}
		out = append(out, prom.Sample{Labels: s.Metric, Value: s.F, Time: at})
	}
	slices.SortStableFunc(out, func(a, b prom.Sample) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// Range is Query over a time.
func (s Server) Range(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]prom.Line, error) {
	if err := s.fails(query, from); err != nil {
		return nil, err
	}
	q, err := s.Engine.NewRangeQuery(ctx, s.Data, nil, query, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", prom.ErrBadQuery, err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	matrix, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", prom.ErrBadQuery, err)
	}
	if err := partial(result.Warnings, query); err != nil {
		return nil, err
	}
	var out []prom.Line
	for _, s := range matrix {
		l := prom.Line{Labels: s.Metric}
		for _, f := range s.Floats {
			l.Points = append(l.Points, prom.Point{Time: time.UnixMilli(f.T), Value: f.F})
		}
		out = append(out, l)
	}
	return out, nil
}

func partial(warnings annotations.Annotations, query string) error {
	if texts, _ := warnings.AsStrings(query, 10, 0); len(texts) > 0 {
		return &prom.PartialError{Warnings: texts}
	}
	return nil
}

// Finder returns the series that match. From and to are in milliseconds, both ends
// included; points outside them are never read.
type Finder func(from, to int64, matchers []*labels.Matcher) []storage.Series

// Querier returns a storage.Querier of find's series between two times, in
// milliseconds.
func Querier(from, to int64, find Finder) storage.Querier {
	return &storage.MockQuerier{SelectMockFunction: func(sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		from, to := from, to
		if hints != nil {
			from, to = hints.Start, hints.End
		}
		found := find(from, to, matchers)
		if sorted {
			slices.SortStableFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
		}
		return &seriesSet{found: found}
	}}
}

// Matches reports whether a series matches all matchers.
func Matches(ls labels.Labels, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
}

// MatchesName reports whether a series of this name can match all matchers.
func MatchesName(name string, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(name) })
}

type seriesSet struct {
	found []storage.Series
	next  int
}

func (s *seriesSet) Next() bool                      { s.next++; return s.next <= len(s.found) }
func (s *seriesSet) At() storage.Series              { return s.found[s.next-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }
