package cache

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Registerer is where the cache's own series go.
type Registerer = prometheus.Registerer

// backendLabel is the label of the one Prometheus there is today.
const backendLabel = "default"

type metrics struct {
	queries *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	series  *prometheus.GaugeVec
	dropped *prometheus.CounterVec
}

func newMetrics(reg Registerer) (*metrics, error) {
	m := &metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AdapterQueries)), metric.AdapterQueries.Labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric.AdapterQuerySeconds.Name, Help: metric.AdapterQuerySeconds.Help,
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, metric.AdapterQuerySeconds.Labels),
		series:  prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AdapterSeries)), metric.AdapterSeries.Labels),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AdapterDropped)), metric.AdapterDropped.Labels),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.queries, m.seconds, m.series, m.dropped} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func opts(d metric.Desc) prometheus.Opts { return prometheus.Opts{Name: d.Name, Help: d.Help} }

// declare makes the counters of a rule exist at zero, so that a rate sees the
// first increment.
func (m *metrics) declare(rule string) {
	for _, r := range []string{"ok", "error", "partial"} {
		m.queries.WithLabelValues(backendLabel, rule, r)
	}
	for _, r := range signal.Reasons() {
		m.dropped.WithLabelValues(rule, string(r))
	}
}

func (m *metrics) queried(rule string, took time.Duration, result string) {
	m.queries.WithLabelValues(backendLabel, rule, result).Inc()
	m.seconds.WithLabelValues(backendLabel).Observe(took.Seconds())
}

func (m *metrics) read(rule string, series int, dropped map[signal.Reason]int) {
	m.series.WithLabelValues(rule).Set(float64(series))
	for reason, n := range dropped {
		m.dropped.WithLabelValues(rule, string(reason)).Add(float64(n))
	}
}
