package main

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// scrapeInterval in milliseconds, as Prometheus has it in most places.
const scrapeInterval = 15_000

// store is a storage for Prometheus's own engine in which each series has always
// been scraped every scrapeInterval, at its own phase. It has label sets only:
// values are computed when they are read.
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

// seriesLabels are the labels of a scrape with the Prometheus Operator.
func seriesLabels(f fleet, d served, workload, n int) labels.Labels {
	id := workload*podsPerWorkload + n
	ls := map[string]string{
		labels.MetricName: d.series, "namespace": f.namespace(workload), "pod": pod(workload, n), "container": "server",
		"instance": fmt.Sprintf("10.%d.%d.%d:8000", id>>16, id>>8&255, id&255), "endpoint": "http",
	}
	if d.device {
		ls["job"], ls["node"], ls["gpu"] = "gpuscale-exporter", fmt.Sprintf("node-%05d", id/8), fmt.Sprint(id%8)
		ls[metric.LabelGPUUUID] = "GPU-" + uid('g', id)
	} else {
		ls["job"], ls["model_name"], ls["engine"] = app(workload), "model-"+app(workload), "0"
	}
	return labels.FromMap(ls)
}

// Querier implements storage.Queryable.
func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return memstore.Querier(mint, maxt, s.find), nil
}

// find returns the matching series, with their scrapes between two times in
// milliseconds.
func (s *store) find(from, to int64, matchers []*labels.Matcher) []storage.Series {
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
	fam := s.byName[name]
	if fam == nil {
		return nil
	}
	candidates := fam.all
	if namespace != "" {
		candidates = fam.byNamespace[namespace]
	}
	found := make([]storage.Series, 0, len(candidates))
	for _, one := range candidates {
		if memstore.Matches(one.labels, rest) {
			found = append(found, within{one, from, to})
		}
	}
	return found
}

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

// within is a series between two times in milliseconds.
type within struct {
	series   *regular
	from, to int64
}

func (w within) Labels() labels.Labels { return w.series.labels }

func (w within) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(w)
}

// first is the time of the first scrape within, in milliseconds.
func (w within) first() int64 {
	return (w.from-w.series.phase+scrapeInterval-1)/scrapeInterval*scrapeInterval + w.series.phase
}

// Len is the number of scrapes.
func (w within) Len() int {
	return int(max(0, (w.to-w.first()+scrapeInterval)/scrapeInterval))
}

// Get returns the nth scrape.
func (w within) Get(n int) chunks.Sample {
	t := w.first() + int64(n)*scrapeInterval
	return memstore.Float{Milli: t, Value: w.series.value(t)}
}
