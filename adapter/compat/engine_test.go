package compat

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

const scrape = 15 * time.Second

var epoch = time.UnixMilli(1_700_000_000_000)

// memory is a storage of a few series for Prometheus's own engine.
type memory []storage.Series

// load reads series in promqltest's notation, one a line, a value each scrape.
func load(t testing.TB, text string) memory {
	t.Helper()
	var m memory
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		for _, word := range []string{"NaN", "Inf"} { // which the notation has no "x40" for
			line = strings.Replace(line, word+"x40", strings.Repeat(word+" ", 41), 1)
		}
		ls, values, err := reading.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, float{t: epoch.Add(time.Duration(i) * scrape).UnixMilli(), v: v.Value})
			}
		}
		m = append(m, storage.NewListSeries(ls, samples))
	}
	return m
}

// Querier implements storage.Queryable.
func (m memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
			for _, s := range m {
				if matched(matchers, s.Labels()) {
					found = append(found, s)
				}
			}
			return &seriesSet{series: found}
		},
	}, nil
}

func matched(matchers []*labels.Matcher, ls labels.Labels) bool {
	for _, m := range matchers {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool                      { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.next-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// float is a sample that is no histogram; those methods are never called.
type float struct {
	chunks.Sample
	t int64
	v float64
}

func (f float) ST() int64              { return 0 }
func (f float) T() int64               { return f.t }
func (f float) F() float64             { return f.v }
func (float) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// query evaluates PromQL at a time after the epoch.
func (m memory) query(t testing.TB, text string, after time.Duration) (prom.Vector, error) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: reading})
	at := epoch.Add(after)
	q, err := engine.NewInstantQuery(t.Context(), m, nil, text, at)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer q.Close()
	r := q.Exec(t.Context())
	vector, err := r.Vector()
	if err != nil {
		return nil, err
	}
	var out prom.Vector
	for _, s := range vector {
		out = append(out, prom.Sample{Labels: prom.FromMap(s.Metric.Map()), Value: s.F, Time: at})
	}
	return out, nil
}

// ask evaluates a plan and reads it, on a clock an hour ahead of Prometheus's.
func (m memory) ask(t testing.TB, p *plan, after time.Duration) (view, map[signal.Reason]int, error) {
	t.Helper()
	v, err := m.query(t, p.query, after)
	if err != nil {
		return view{}, nil, err
	}
	r := signal.Reading{Evaluated: epoch.Add(after), Now: epoch.Add(after + time.Hour)}
	state, _, dropped := p.reader(2*time.Minute)(nil, v, r)
	return view{plan: p, table: state.(table)}, dropped, nil
}
