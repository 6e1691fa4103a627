package alerts_test

import (
	"context"
	"fmt"
	"slices"
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

	"github.com/gpuscale/gpuscale/dashboards/alerts"
)

// step is the time between two values of a case and between two evaluations: the
// file's interval.
const step = time.Minute

var promQL = parser.NewParser(parser.Options{})

var engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL})

// made is series as promtool writes them: a value each minute from 0 on.
type made []storage.Series

// parse reads lines of promtool's notation.
func parse(lines string) (made, error) {
	var m made
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		if line == "" {
			continue
		}
		ls, values, err := promQL.ParseSeriesDesc(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		var points []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				points = append(points, number{time.Duration(i) * step, v.Value})
			}
		}
		m = append(m, storage.NewListSeries(ls, points))
	}
	return m, nil
}

func (m made) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, s := range m {
			if !slices.ContainsFunc(matchers, func(x *labels.Matcher) bool { return !x.Matches(s.Labels().Get(x.Name)) }) {
				found = append(found, s)
			}
		}
		return &set{all: found}
	}}, nil
}

type set struct {
	all  []storage.Series
	next int
}

func (s *set) Next() bool                      { s.next++; return s.next <= len(s.all) }
func (s *set) At() storage.Series              { return s.all[s.next-1] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

type number struct {
	at    time.Duration
	value float64
}

func (n number) T() int64                    { return n.at.Milliseconds() }
func (number) ST() int64                     { return 0 }
func (n number) F() float64                  { return n.value }
func (number) H() *histogram.Histogram       { return nil }
func (number) FH() *histogram.FloatHistogram { return nil }
func (number) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (n number) Copy() chunks.Sample         { return n }

// rule is what is evaluated: an alert, or an alert with a mistake put in.
type rule struct {
	name, query string
	hold        time.Duration
}

func ruleOf(a alerts.Alert) rule {
	p := alerts.Params{Jobs: alerts.Jobs()}
	if a.Threshold != nil {
		p.Threshold = fmt.Sprint(*a.Threshold)
	}
	return rule{a.Name, a.Query(p), a.For}
}

// watch is a double of what Prometheus does with an alerting rule: it is pending from
// the first evaluation that gives a label set, and fires once that has been so for as
// long as the rule holds. TestPromtool has the same cases judged by Prometheus.
type watch struct {
	rule
	since map[string]time.Time // by label set
}

func newWatch(r rule) *watch { return &watch{r, map[string]time.Time{}} }

// evaluate returns the label sets that fire, sorted.
func (w *watch) evaluate(ctx context.Context, src storage.Queryable, now time.Time) ([]string, error) {
	q, err := engine.NewInstantQuery(ctx, src, nil, w.query, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	defer q.Close()
	v, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	next, firing := map[string]time.Time{}, []string{}
	for _, s := range v {
		key := s.Metric.DropReserved(func(n string) bool { return n == labels.MetricName }).String()
		if _, twice := next[key]; twice {
			return nil, fmt.Errorf("%s: two series would be the same alert %s", w.name, key)
		}
		next[key] = now
		if since, ok := w.since[key]; ok {
			next[key] = since
		}
		if now.Sub(next[key]) >= w.hold {
			firing = append(firing, key)
		}
	}
	w.since = next
	slices.Sort(firing)
	return firing, nil
}

// reads are the families that a query reads, sorted.
func reads(t *testing.T, query string) []string {
	t.Helper()
	e, err := promQL.ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var names []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names)
}
