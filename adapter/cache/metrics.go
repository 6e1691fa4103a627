package cache

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

type metrics struct {
	queries *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	dropped *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, c *Cache) *metrics {
	reg.MustRegister(states{c})
	with := promauto.With(reg)
	return &metrics{
		queries: with.NewCounterVec(prometheus.CounterOpts(opts(metric.AdapterQueries)), metric.AdapterQueries.Labels),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric.AdapterQuerySeconds.Name, Help: metric.AdapterQuerySeconds.Help,
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, metric.AdapterQuerySeconds.Labels),
		dropped: with.NewCounterVec(prometheus.CounterOpts(opts(metric.AdapterDropped)), metric.AdapterDropped.Labels),
	}
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

func (m *metrics) queried(q Question, took time.Duration, err error) {
	result := "ok"
	if errors.Is(err, prom.ErrPartial) {
		result = "partial"
	} else if err != nil {
		result = "error"
	}
	m.queries.WithLabelValues(q.Backend, q.Rule, result).Inc()
	m.seconds.WithLabelValues(q.Backend).Observe(took.Seconds())
}

func (m *metrics) read(rule string, dropped map[signal.Reason]int) {
	for reason, n := range dropped {
		m.dropped.WithLabelValues(rule, string(reason)).Add(float64(n))
	}
}

// states reports the state at the time of the scrape. A rule without an answer
// has no age and no number of series: they are absent, not zero.
type states struct{ *Cache }

var ageDesc, seriesDesc, questionsDesc = desc(metric.AdapterRuleAge), desc(metric.AdapterSeries), desc(metric.AdapterQuestions)

func desc(d metric.Desc) *prometheus.Desc { return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil) }

// Describe implements prometheus.Collector.
func (states) Describe(ch chan<- *prometheus.Desc) {
	ch <- ageDesc
	ch <- seriesDesc
	ch <- questionsDesc
}

// Collect implements prometheus.Collector.
func (s states) Collect(ch chan<- prometheus.Metric) {
	ages, series, active := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for name := range s.backends {
		active[name] = 0
	}
	s.locked(func() {
		for u := range s.units() {
			active[u.topic.Backend]++
			if rule := u.topic.Rule; !u.At.IsZero() {
				ages[rule] = max(ages[rule], time.Since(u.At).Seconds())
				series[rule] += float64(u.Table.Series())
			}
		}
	})
	for d, values := range map[*prometheus.Desc]map[string]float64{ageDesc: ages, seriesDesc: series, questionsDesc: active} {
		for label, v := range values {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
		}
	}
}

// Status is the state of one question in one namespace, for /debug/rules.
type Status struct {
	Rule      string `json:"-"`
	Backend   string `json:"backend"`
	Namespace string `json:"namespace,omitempty"`
	Query     string `json:"query"`
	// Alone: the namespace is asked about by itself, since its series were at
	// fault less than ten minutes ago.
	Alone bool `json:"alone,omitempty"`
	// AgeSeconds is the time since the last good answer; nil before the first.
	AgeSeconds *float64 `json:"ageSeconds"`
	// Series in that answer, and how many of them were dropped.
	Series  int                   `json:"series"`
	Dropped map[signal.Reason]int `json:"dropped,omitempty"`
	// Failure of the last query, if it failed.
	Failure string `json:"failure,omitempty"`
}

// Status returns all questions in use, by rule, backend and namespace.
func (c *Cache) Status() (all []Status) {
	var topics []*topic
	c.locked(func() {
		for u := range c.units() {
			one := Status{Rule: u.topic.Rule, Backend: u.topic.Backend, Namespace: u.namespace, Alone: u.alone, Series: u.Table.Series(), Dropped: u.dropped}
			if !u.At.IsZero() {
				one.AgeSeconds = new(time.Since(u.At).Seconds())
			}
			if u.Failure != nil {
				one.Failure = u.Failure.Error()
			}
			all, topics = append(all, one), append(topics, u.topic)
		}
	})
	for i, t := range topics { // not under the lock: it takes long
		all[i].Query = strings.Join(t.Queries(false, []string{all[i].Namespace}), "\n")
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Backend, b.Backend), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Query, b.Query))
	})
	return all
}
