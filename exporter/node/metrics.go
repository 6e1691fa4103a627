package node

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// metrics are the exporter's self-metrics, in a registry of its own so that
// nodes in one process do not mix.
type metrics struct {
	registry *prometheus.Registry

	reads      *prometheus.CounterVec
	readTime   prometheus.Histogram
	reconnects prometheus.Counter
	drops      *prometheus.CounterVec
	stale      prometheus.Counter // of drops
	quiesced   prometheus.Gauge

	series     prometheus.Gauge
	leftOut    *prometheus.CounterVec
	scrapeTime prometheus.Histogram

	nodeWrites *prometheus.CounterVec

	reloads    *prometheus.CounterVec
	reloadOK   prometheus.Gauge
	reloadOKAt prometheus.Gauge
}

func newMetrics(sourceUp, attributionErrors func() float64) *metrics {
	registry := prometheus.NewRegistry()
	made := promauto.With(registry)
	counters := func(d metric.Desc) *prometheus.CounterVec {
		return made.NewCounterVec(prometheus.CounterOpts(opts(d)), d.Labels)
	}
	histogram := func(d metric.Desc, buckets ...float64) prometheus.Histogram {
		return made.NewHistogram(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets})
	}
	m := &metrics{
		registry:   registry,
		reads:      counters(metric.ExporterReads),
		readTime:   histogram(metric.ExporterReadSeconds, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30),
		reconnects: made.NewCounter(prometheus.CounterOpts(opts(metric.ExporterReconnects))),
		drops:      counters(metric.ExporterDropped),
		quiesced:   made.NewGauge(opts(metric.ExporterQuiesced)),
		series:     made.NewGauge(opts(metric.ExporterSeries)),
		leftOut:    counters(metric.ExporterSeriesDropped),
		scrapeTime: histogram(metric.ExporterScrapeSeconds, .0001, .00025, .0005, .001, .0025, .005, .01, .1),
		nodeWrites: counters(metric.ExporterNodeWrites),
		reloads:    counters(metric.ExporterReloads),
		reloadOK:   made.NewGauge(opts(metric.ExporterReloadSuccessful)),
		reloadOKAt: made.NewGauge(opts(metric.ExporterReloadSuccessTime)),
	}
	made.NewGaugeFunc(opts(metric.ExporterUp), sourceUp)
	made.NewCounterFunc(prometheus.CounterOpts(opts(metric.ExporterAttributionErrors)), attributionErrors)
	made.NewGaugeVec(opts(metric.ExporterBuildInfo), metric.ExporterBuildInfo.Labels).WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	m.stale = m.drops.WithLabelValues("stale")
	for _, result := range []string{"ok", "error"} {
		m.reads.WithLabelValues(result)
		m.reloads.WithLabelValues(result)
	}
	m.reloadOK.Set(1) // the program does not start with a bad file
	m.reloadOKAt.SetToCurrentTime()
	return m
}

func opts(d metric.Desc) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Name: d.Name, Help: d.Help}
}

// read counts one pass over the source.
func (m *metrics) read(took time.Duration, err error) {
	m.readTime.Observe(took.Seconds())
	m.reads.WithLabelValues(result(err)).Inc()
}

// reloaded counts a reload of the counters.
func (m *metrics) reloaded(err error) {
	m.reloads.WithLabelValues(result(err)).Inc()
	if err != nil {
		m.reloadOK.Set(0)
		return
	}
	m.reloadOK.Set(1)
	m.reloadOKAt.SetToCurrentTime()
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// count adds to a counter by its one label.
func count(c *prometheus.CounterVec, by map[string]int) {
	for label, n := range by {
		c.WithLabelValues(label).Add(float64(n))
	}
}

// CountNodeWrite counts a write to the API about the own node: kind is
// "condition", "event" or "acknowledgement".
func (n *Node) CountNodeWrite(kind string, err error) {
	n.metrics.nodeWrites.WithLabelValues(kind, result(err)).Inc()
}
