package explain

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// scrape is the interval of the loads below.
const scrape = 15 * time.Second

// end is the time of a load's last value, and where a synctest bubble's clock
// begins.
var end = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// engine is Prometheus's own engine over a few series.
type engine struct {
	engine *promql.Engine
	series []storage.Series
	down   func(at time.Time) bool
}

// load reads series in promqltest's notation, one a line, a value each scrape,
// the last one at end.
func load(t testing.TB, text string) *engine {
	t.Helper()
	e := &engine{engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		ls, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, float{t: end.Add(time.Duration(i+1-len(values)) * scrape).UnixMilli(), v: v.Value})
			}
		}
		e.series = append(e.series, storage.NewListSeries(ls, samples))
	}
	return e
}

// Query implements the Querier.
func (e *engine) Query(ctx context.Context, query string, at time.Time) (prom.Vector, error) {
	if at.IsZero() {
		at = end
	}
	if e.down != nil && e.down(at) {
		return nil, fmt.Errorf("%w: connection refused", prom.ErrUnavailable)
	}
	q, err := e.engine.NewInstantQuery(ctx, e, nil, query, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	vector, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, err
	}
	var out prom.Vector
	for _, s := range vector {
		out = append(out, prom.Sample{Labels: prom.FromMap(s.Metric.Map()), Value: s.F, Time: at})
	}
	return out, nil
}

// Querier implements storage.Queryable.
func (e *engine) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, s := range e.series {
			if matches(matchers, s.Labels()) {
				found = append(found, s)
			}
		}
		return &seriesSet{series: found}
	}}, nil
}

func matches(matchers []*labels.Matcher, ls labels.Labels) bool {
	for _, m := range matchers {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.at-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

type float struct {
	t int64
	v float64
}

func (f float) T() int64                      { return f.t }
func (f float) ST() int64                     { return 0 }
func (f float) F() float64                    { return f.v }
func (f float) H() *histogram.Histogram       { return nil }
func (f float) FH() *histogram.FloatHistogram { return nil }
func (f float) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (f float) Copy() chunks.Sample           { return f }
