package boards_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A fleet of 10,000 cards, made of a recorded state: 1,125 nodes like its full node
// of eight cards, 250 like its node of four cards in MIG mode, 500 model servers, and
// a ledger of 2,000 rows. Series, labels and names are those that our programs emit;
// values run on for as long as anybody asks.
const (
	wholeNodes  = 1125
	cutNodes    = 250
	servers     = 500
	teams       = 100
	bigPools    = 20
	scrapeEvery = 15 * time.Second
	ruleEvery   = 30 * time.Second
)

// endless is a series that has had a value every step since for ever: it begins with
// base and grows by slope a second.
type endless struct {
	labels      labels.Labels
	base, slope float64
	step        int64 // ms
}

// bigFleet is a storage of endless series, by name.
type bigFleet map[string][]*endless

func (f bigFleet) add(ls labels.Labels, base, slope float64, step time.Duration) {
	name := ls.Get(labels.MetricName)
	f[name] = append(f[name], &endless{ls, base, slope, step.Milliseconds()})
}

var madeFleet = sync.OnceValues(func() (bigFleet, error) {
	s, ok := states.Find(states.Healthy)
	if !ok {
		return nil, fmt.Errorf("there is no healthy state")
	}
	at := s.Start().Add(12 * time.Minute) // a training job holds whole nodes then
	held, err := promqlVector(s.Storage(false), `gpu_held{exported_pod="big-0"}`, at)
	if err != nil || len(held) == 0 {
		return nil, fmt.Errorf("no node is held whole: %w", err)
	}
	all, err := promqlVector(s.Storage(false), `{__name__=~".+"}`, at)
	if err != nil {
		return nil, err
	}
	f := bigFleet{}
	whole := held[0].Metric.Get(metric.LabelNode)
	for _, one := range all {
		name, slope := one.Metric.Get(labels.MetricName), 0.0
		if counts(name) {
			slope = one.F / (12 * time.Minute).Seconds()
		}
		copies := func(n int, from string) {
			for i := range n {
				f.add(renamedTo(one.Metric, from, i), one.F, slope, scrapeEvery)
			}
		}
		switch {
		case name == metric.AutoscalerGPUSeconds.Name:
		case mentions(one.Metric, whole):
			copies(wholeNodes, whole)
		case mentions(one.Metric, "slices-a"):
			copies(cutNodes, "slices-a")
		case mentions(one.Metric, "vllm-0"):
			copies(servers, "vllm-0")
		case mentions(one.Metric, "vllm-") || one.Metric.Has(metric.LabelNode) || strings.Contains(one.Metric.Get("instance"), "exporter"):
		default:
			f.add(one.Metric, one.F, slope, scrapeEvery)
		}
	}
	f.ledger()
	return f, f.record(at)
})

// ledger is the autoscaler's, with a row for each team in each pool.
func (f bigFleet) ledger() {
	for row := range bigPools * teams {
		for _, place := range heldIn {
			f.add(labels.FromStrings(labels.MetricName, metric.AutoscalerGPUSeconds.Name, "cluster", "east", "job", "gpuscale-autoscaler", "namespace", "gpuscale-system",
				metric.LabelPool, fmt.Sprintf("pool-%d", row%bigPools), metric.LabelModel, "H100-80GB", metric.LabelTenant, fmt.Sprintf("tenant-%d", row/bigPools/2),
				"exported_namespace", fmt.Sprintf("team-%d", row/bigPools), metric.LabelPlace, place), float64(row), 1, scrapeEvery)
		}
	}
}

var heldIn = []string{"busy", "slack", "idle", "unmeasured"}

// record adds what the rules make of it.
func (f bigFleet) record(at time.Time) error {
	for _, r := range rules.All() {
		v, err := promqlVector(f, r.Expr, at)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Record, err)
		}
		for _, one := range v {
			f.add(labels.NewBuilder(one.Metric).Set(labels.MetricName, r.Record).Labels(), one.F, 0, ruleEvery)
		}
	}
	return nil
}

func counts(name string) bool {
	for _, part := range []string{"", "_bucket", "_sum", "_count"} {
		if whole, ok := strings.CutSuffix(name, part); ok {
			if d, ok := metric.Find(whole); ok {
				return d.Type != metric.Gauge
			}
		}
	}
	return strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
}

func mentions(ls labels.Labels, what string) bool {
	found := false
	ls.Range(func(l labels.Label) { found = found || strings.Contains(l.Value, what) })
	return found
}

// renamedTo is a copy of a series: of another node or pod, whose cards other teams
// hold.
func renamedTo(ls labels.Labels, from string, i int) labels.Labels {
	b := labels.NewBuilder(ls)
	ls.Range(func(l labels.Label) {
		switch {
		case l.Name == "exported_namespace", l.Name == "namespace" && from == "vllm-0":
			b.Set(l.Name, fmt.Sprintf("team-%d", i%teams))
		case l.Name == "exported_pod":
			b.Set(l.Name, fmt.Sprintf("%s-%s-%d", l.Value, from, i))
		case strings.Contains(l.Value, from):
			b.Set(l.Name, strings.ReplaceAll(l.Value, from, fmt.Sprintf("%s-%d", from, i)))
		}
	})
	return b.Labels()
}

func promqlVector(src storage.Queryable, query string, at time.Time) (promql.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})})
	q, err := engine.NewInstantQuery(context.Background(), src, nil, query, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	v, err := q.Exec(context.Background()).Vector()
	return slices.Clone(v), err
}

// TestBigFleet: it has the size that it is there for.
func TestBigFleet(t *testing.T) {
	f, err := madeFleet()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, of := range f {
		n += len(of)
	}
	if cards := len(f[metric.GPUInfo.Name]); cards != 10000 || n < 200000 {
		t.Errorf("%d cards, %d series", cards, n)
	}
	t.Logf("%d series, %d of them the rules'", n, recorded(f))
}

func recorded(f bigFleet) int {
	n := 0
	for name, of := range f {
		if strings.Count(name, ":") == 2 {
			n += len(of)
		}
	}
	return n
}

// Querier implements storage.Queryable.
func (f bigFleet) Querier(mint, maxt int64) (storage.Querier, error) {
	return bigQuerier{f, mint, maxt}, nil
}

type bigQuerier struct {
	fleet      bigFleet
	mint, maxt int64
}

// Select implements storage.Querier.
func (q bigQuerier) Select(_ context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	from, to := q.mint, q.maxt
	if hints != nil {
		from, to = hints.Start, hints.End
	}
	found := &bigResult{from: from, to: to}
	for name, of := range q.fleet {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(name) }) {
			continue
		}
		for _, s := range of {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name != labels.MetricName && !m.Matches(s.labels.Get(m.Name)) }) {
				found.all = append(found.all, s)
			}
		}
	}
	return found
}

// LabelValues implements storage.Querier.
func (bigQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements storage.Querier.
func (bigQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements storage.Querier.
func (bigQuerier) Close() error { return nil }

type bigResult struct {
	all      []*endless
	from, to int64
	next     int
}

func (r *bigResult) Next() bool                      { r.next++; return r.next <= len(r.all) }
func (r *bigResult) At() storage.Series              { return bigSeries{r.all[r.next-1], r.from, r.to} }
func (*bigResult) Err() error                        { return nil }
func (*bigResult) Warnings() annotations.Annotations { return nil }

type bigSeries struct {
	*endless
	from, to int64
}

func (s bigSeries) Labels() labels.Labels { return s.labels }

func (s bigSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	first := (s.from + s.step - 1) / s.step * s.step
	return storage.NewListSeriesIterator(&bigPoints{bigSeries: s, first: first})
}

// bigPoints are a series' points, made as they are read. It is the one read last, too.
type bigPoints struct {
	bigSeries
	first, at int64
}

func (p *bigPoints) Len() int { return int(max(0, (p.to-p.first)/p.step+1)) }

func (p *bigPoints) Get(i int) chunks.Sample {
	p.at = p.first + int64(i)*p.step
	return p
}

func (p *bigPoints) T() int64                    { return p.at }
func (*bigPoints) ST() int64                     { return 0 }
func (p *bigPoints) F() float64                  { return p.base + p.slope*float64(p.at-beginning)/1000 }
func (*bigPoints) H() *histogram.Histogram       { return nil }
func (*bigPoints) FH() *histogram.FloatHistogram { return nil }
func (*bigPoints) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p *bigPoints) Copy() chunks.Sample         { c := *p; return &c }

// beginning is when counters are at their base, long before anybody asks.
const beginning = 1_700_000_000_000
