package cache

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Registerer takes the cache's own series.
type Registerer = prometheus.Registerer

type metrics struct {
	queries *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	dropped *prometheus.CounterVec
}

func newMetrics(reg Registerer, c *Cache) (*metrics, error) {
	m := &metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AdapterQueries)), metric.AdapterQueries.Labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric.AdapterQuerySeconds.Name, Help: metric.AdapterQuerySeconds.Help,
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, metric.AdapterQuerySeconds.Labels),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AdapterDropped)), metric.AdapterDropped.Labels),
	}
	var errs []error
	for _, one := range []prometheus.Collector{m.queries, m.seconds, m.dropped, newStates(c)} {
		errs = append(errs, reg.Register(one))
	}
	return m, errors.Join(errs...)
}

func opts(d metric.Desc) prometheus.Opts { return prometheus.Opts{Name: d.Name, Help: d.Help} }

// declare creates a rule's counters at zero, so that a rate sees the first
// increment.
func (m *metrics) declare(q Question) {
	for _, r := range []string{"ok", "error", "partial"} {
		m.queries.WithLabelValues(q.Backend, q.Rule, r)
	}
	for _, r := range signal.Reasons() {
		m.dropped.WithLabelValues(q.Rule, string(r))
	}
}

func (m *metrics) queried(q Question, took time.Duration, result string) {
	m.queries.WithLabelValues(q.Backend, q.Rule, result).Inc()
	m.seconds.WithLabelValues(q.Backend).Observe(took.Seconds())
}

func (m *metrics) read(rule string, dropped map[signal.Reason]int) {
	for reason, n := range dropped {
		m.dropped.WithLabelValues(rule, string(reason)).Add(float64(n))
	}
}
