package node

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		reads:      counterVec(metric.ExporterReads),
		readTime:   histogram(metric.ExporterReadSeconds, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts(gauge(metric.ExporterReconnects))),
		drops:      counterVec(metric.ExporterDropped),
		quiesced:   prometheus.NewGauge(gauge(metric.ExporterQuiesced)),
		series:     prometheus.NewGauge(gauge(metric.ExporterSeries)),
		leftOut:    counterVec(metric.ExporterSeriesDropped),
		scrapeTime: histogram(metric.ExporterScrapeSeconds, .0001, .00025, .0005, .001, .0025, .005, .01, .1),
		nodeWrites: counterVec(metric.ExporterNodeWrites),
		reloads:    counterVec(metric.ExporterReloads),
		reloadOK:   prometheus.NewGauge(gauge(metric.ExporterReloadSuccessful)),
		reloadOKAt: prometheus.NewGauge(gauge(metric.ExporterReloadSuccessTime)),
	}
	build := prometheus.NewGaugeVec(gauge(metric.ExporterBuildInfo), metric.ExporterBuildInfo.Labels)
	build.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	m.registry.MustRegister(prometheus.NewGaugeFunc(gauge(metric.ExporterUp), sourceUp), m.reads, m.readTime, m.reconnects, m.drops, m.quiesced,
		m.series, m.leftOut, m.scrapeTime, m.nodeWrites, m.reloads, m.reloadOK, m.reloadOKAt, build,
		prometheus.NewCounterFunc(prometheus.CounterOpts(gauge(metric.ExporterAttributionErrors)), attributionErrors))
	m.stale = m.drops.WithLabelValues("stale")
	for _, result := range []string{"ok", "error"} {
		m.reads.WithLabelValues(result)
		m.reloads.WithLabelValues(result)
	}
	m.reloadOK.Set(1) // the program does not start with a bad file
	m.reloadOKAt.SetToCurrentTime()
	return m
}

func gauge(d metric.Desc) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Name: d.Name, Help: d.Help}
}

func counterVec(d metric.Desc) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(gauge(d)), d.Labels)
}

func histogram(d metric.Desc, buckets ...float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets})
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
