package signal

import (
	"iter"
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
)

// step is the scrape interval of the loads below.
const step = 5 * time.Second

// epoch is the time of a load's first value.
var epoch = time.UnixMilli(1_700_000_000_000)

// memory is a storage of a few series for Prometheus's own engine.
type memory []storage.Series

// load reads series in promqltest's notation, one a line, a value each step;
// "_" is a scrape that brought none and "stale" a series that ended.
func load(t testing.TB, text string) memory {
	t.Helper()
	var m memory
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
			at := epoch.Add(time.Duration(i) * step).UnixMilli()
			switch {
			case v.Omitted:
			case v.Histogram != nil:
				samples = append(samples, nativeSample{t: at, h: v.Histogram})
			default:
				samples = append(samples, float{t: at, v: v.Value})
			}
		}
		m = append(m, storage.NewListSeries(ls, samples))
	}
	return m
}

func (m memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
			for _, s := range m {
				if all(matchers, s.Labels()) {
					found = append(found, s)
				}
			}
			return &seriesSet{series: found}
		},
	}, nil
}

func all(matchers []*labels.Matcher, ls labels.Labels) bool {
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

// ask evaluates a rule's own query at a time after the epoch and reads it into
// the table after previous. The reader's clock is an hour ahead of
// Prometheus's, which must not matter.
func ask(t testing.TB, m memory, previous *Table, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	rule := previous.Rule()
	return askFor(t, m, previous, rule.Query(), after)
}

func askFor(t testing.TB, m memory, previous *Table, promql string, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	engine := newEngine()
	evaluated := epoch.Add(after)
	q, err := engine.NewInstantQuery(t.Context(), m, nil, promql, evaluated)
	if err != nil {
		t.Fatalf("%s: %v", promql, err)
	}
	defer q.Close()
	r := q.Exec(t.Context())
	vector, err := r.Vector()
	if err != nil {
		t.Fatalf("%s: %v", promql, err)
	}
	// The adapter takes an answer with warnings for a partial one.
	if warnings, _ := r.Warnings.AsStrings(promql, 10, 0); len(warnings) > 0 {
		t.Fatalf("%s: %q", promql, warnings)
	}
	var samples []Sample
	for _, s := range vector {
		samples = append(samples, NewSample(pairs(s.Metric), s.F))
	}
	now := evaluated.Add(time.Hour)
	next, dropped := previous.Read(samples, Reading{Evaluated: evaluated, Now: now})
	return next, dropped, now
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
}

// float is a sample that is no histogram; those methods are never called.
type float struct {
	chunks.Sample
	t int64
	v float64
}

func pairs(ls labels.Labels) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		ls.Range(func(l labels.Label) { yield(l.Name, l.Value) })
	}
}

func (f float) ST() int64              { return 0 }
func (f float) T() int64               { return f.t }
func (f float) F() float64             { return f.v }
func (float) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// nativeSample is a sample of a native histogram.
type nativeSample struct {
	chunks.Sample
	t int64
	h *histogram.FloatHistogram
}

func (n nativeSample) ST() int64                     { return 0 }
func (n nativeSample) T() int64                      { return n.t }
func (n nativeSample) FH() *histogram.FloatHistogram { return n.h }
func (nativeSample) Type() chunkenc.ValueType        { return chunkenc.ValFloatHistogram }
