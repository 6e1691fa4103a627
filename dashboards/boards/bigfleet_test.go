package boards_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
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

var engine = memstore.NewEngine(nil)

func promqlVector(src storage.Queryable, query string, at time.Time) (promql.Vector, error) {
	v, _, err := memstore.Instant(context.Background(), engine, src, query, at)
	return v, err
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
	return memstore.Querier(mint, maxt, func(from, to int64, matchers []*labels.Matcher) []storage.Series {
		var found []storage.Series
		for name, of := range f {
			if !memstore.MatchesName(name, matchers) {
				continue
			}
			rest := slices.DeleteFunc(slices.Clone(matchers), func(m *labels.Matcher) bool { return m.Name == labels.MetricName })
			for _, s := range of {
				if memstore.Matches(s.labels, rest) {
					found = append(found, bigSeries{s, from, to})
				}
			}
		}
		return found
	}), nil
}

type bigSeries struct {
	*endless
	from, to int64
}

func (s bigSeries) Labels() labels.Labels { return s.labels }

func (s bigSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	first := (s.from + s.step - 1) / s.step * s.step
	return storage.NewListSeriesIterator(bigPoints{s, first})
}

// bigPoints are a series' points, made as they are read.
type bigPoints struct {
	bigSeries
	first int64
}

func (p bigPoints) Len() int { return int(max(0, (p.to-p.first)/p.step+1)) }

func (p bigPoints) Get(i int) chunks.Sample {
	at := p.first + int64(i)*p.step
	return memstore.Float{Milli: at, Value: p.base + p.slope*float64(at-beginning)/1000}
}

// beginning is when counters are at their base, long before anybody asks.
const beginning = 1_700_000_000_000
