package node

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// metrics are what the exporter says about itself, in a registry of its own so
// that nodes in one process do not mix.
type metrics struct {
	registry   *prometheus.Registry
	up         prometheus.Gauge
	reads      *prometheus.CounterVec
	readTime   prometheus.Histogram
	reconnects prometheus.Counter
	drops      *prometheus.CounterVec
	series     prometheus.Gauge
}

func newMetrics(attributionErrors func() float64) *metrics {
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		up:         prometheus.NewGauge(gauge(metric.ExporterUp)),
		reads:      prometheus.NewCounterVec(prometheus.CounterOpts(gauge(metric.ExporterReads)), metric.ExporterReads.Labels),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts(gauge(metric.ExporterReconnects))),
		drops:      prometheus.NewCounterVec(prometheus.CounterOpts(gauge(metric.ExporterDropped)), metric.ExporterDropped.Labels),
		series:     prometheus.NewGauge(gauge(metric.ExporterSeries)),
		readTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metric.ExporterReadSeconds.Name, Help: metric.ExporterReadSeconds.Help,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
		}),
	}
	build := prometheus.NewGaugeVec(gauge(metric.ExporterBuildInfo), metric.ExporterBuildInfo.Labels)
	build.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	m.registry.MustRegister(m.up, m.reads, m.readTime, m.reconnects, m.drops, m.series, build,
		prometheus.NewCounterFunc(prometheus.CounterOpts(gauge(metric.ExporterAttributionErrors)), attributionErrors))
	for _, result := range []string{"ok", "error"} {
		m.reads.WithLabelValues(result)
	}
	return m
}

func gauge(d metric.Desc) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Name: d.Name, Help: d.Help}
}

// read counts one pass over the source.
func (m *metrics) read(took time.Duration, err error) {
	m.readTime.Observe(took.Seconds())
	if err != nil {
		m.up.Set(0)
		m.reads.WithLabelValues("error").Inc()
		return
	}
	m.up.Set(1)
	m.reads.WithLabelValues("ok").Inc()
}

func (m *metrics) dropped(byReason map[string]int) {
	for reason, n := range byReason {
		m.drops.WithLabelValues(reason).Add(float64(n))
	}
}
