package main

import (
	"context"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// scrapeInterval in milliseconds, as Prometheus has it in most places.
const scrapeInterval = 15_000

// store is a storage for Prometheus's own engine in which each series has
// been scraped every scrapeInterval since for ever, at a phase of its own. It
// holds label sets only: values are made when they are read.
type store struct {
	byName map[string]*family
}

type family struct {
	all         []*regular
	byNamespace map[string][]*regular
}

func newStore(f fleet) *store {
	s := &store{byName: map[string]*family{}}
	n := 0
	for _, d := range f.signals {
		fam := &family{byNamespace: map[string][]*regular{}}
		s.byName[d.series] = fam
		for w := range f.workloads() {
			for i := range podsPerWorkload {
				series := &regular{labels: seriesLabels(f, d, w, i), phase: int64(n*7919) % scrapeInterval, top: d.top}
				fam.all = append(fam.all, series)
				ns := f.namespace(w)
				fam.byNamespace[ns] = append(fam.byNamespace[ns], series)
				n++
			}
		}
	}
	return s
}

// seriesLabels are those of a scrape through the Prometheus Operator.
func seriesLabels(f fleet, d served, workload, n int) labels.Labels {
	id := workload*podsPerWorkload + n
	ls := map[string]string{
		labels.MetricName: d.series, "namespace": f.namespace(workload), "pod": pod(workload, n), "container": "server",
		"instance": fmt.Sprintf("10.%d.%d.%d:8000", id>>16, id>>8&255, id&255), "endpoint": "http",
	}
	if d.card {
		ls["job"], ls["node"], ls["gpu"] = "gpuscale-exporter", fmt.Sprintf("node-%05d", id/8), fmt.Sprint(id%8)
		ls[metric.LabelGPUUUID] = "GPU-" + uid('g', id)
	} else {
		ls["job"], ls["model_name"], ls["engine"] = app(workload), "model-"+app(workload), "0"
	}
	return labels.FromMap(ls)
}

func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{store: s, mint: mint, maxt: maxt}, nil
}

type querier struct {
	store      *store
	mint, maxt int64
}

func (q *querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{querier: q}
	var rest []*labels.Matcher
	var name, namespace string
	for _, m := range matchers {
		switch {
		case m.Type == labels.MatchEqual && m.Name == labels.MetricName:
			name = m.Value
		case m.Type == labels.MatchEqual && m.Name == "namespace":
			namespace = m.Value
		default:
			rest = append(rest, m)
		}
	}
	fam := q.store.byName[name]
	if fam == nil {
		return set
	}
	candidates := fam.all
	if namespace != "" {
		candidates = fam.byNamespace[namespace]
	}
	for _, s := range candidates {
		if all(rest, s.labels) {
			set.found = append(set.found, s)
		}
	}
	return set
}

func all(matchers []*labels.Matcher, ls labels.Labels) bool {
	for _, m := range matchers {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

func (*querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (*querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (*querier) Close() error { return nil }

type seriesSet struct {
	querier *querier
	found   []*regular
	next    int
}

func (s *seriesSet) Next() bool                      { s.next++; return s.next <= len(s.found) }
func (s *seriesSet) At() storage.Series              { return within{s.found[s.next-1], s.querier} }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// regular is a series with a sample each scrapeInterval.
type regular struct {
	labels labels.Labels
	phase  int64 // of its scrapes, ms
	top    float64
}

// value at a scrape: whole numbers below top, or ratios.
func (r *regular) value(t int64) float64 {
	x := float64((r.phase*31+t/scrapeInterval*17)%1000) / 1000
	if r.top > 1 {
		return math.Floor(x * r.top)
	}
	return x * r.top
}

// within is a series as one querier sees it.
type within struct {
	series  *regular
	querier *querier
}

func (w within) Labels() labels.Labels { return w.series.labels }

func (w within) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(w)
}

// first is the time of the first scrape the querier sees, in milliseconds.
func (w within) first() int64 {
	return (w.querier.mint-w.series.phase+scrapeInterval-1)/scrapeInterval*scrapeInterval + w.series.phase
}

// Len is the number of scrapes the querier sees.
func (w within) Len() int {
	return int(max(0, (w.querier.maxt-w.first()+scrapeInterval)/scrapeInterval))
}

// Get makes the nth of them.
func (w within) Get(n int) chunks.Sample {
	t := w.first() + int64(n)*scrapeInterval
	return sample{t: t, v: w.series.value(t)}
}

// sample is one that is no histogram; those methods are never called.
type sample struct {
	chunks.Sample
	t int64
	v float64
}

func (s sample) ST() int64              { return 0 }
func (s sample) T() int64               { return s.t }
func (s sample) F() float64             { return s.v }
func (sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }
