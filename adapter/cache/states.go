package cache

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// states reports the state at the time of the scrape. A rule without an answer
// has no age and no number of series: they are absent, not zero.
type states struct {
	cache                  *Cache
	age, series, questions *prometheus.Desc
}

func newStates(c *Cache) states {
	desc := func(d metric.Desc) *prometheus.Desc { return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil) }
	return states{cache: c, age: desc(metric.AdapterRuleAge), series: desc(metric.AdapterSeries), questions: desc(metric.AdapterQuestions)}
}

// Describe implements prometheus.Collector.
func (s states) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.age
	ch <- s.series
	ch <- s.questions
}

// Collect implements prometheus.Collector.
func (s states) Collect(ch chan<- prometheus.Metric) {
	type rule struct {
		oldest time.Time
		series int
	}
	known, active := map[string]rule{}, map[string]int{}
	for name := range s.cache.plan.backends {
		active[name] = 0
	}
	for _, q := range s.cache.status(false) {
		active[q.Backend]++
		if q.At.IsZero() {
			continue
		}
		r := known[q.Rule]
		if r.oldest.IsZero() || q.At.Before(r.oldest) {
			r.oldest = q.At
		}
		r.series += q.Series
		known[q.Rule] = r
	}
	gauge := func(d *prometheus.Desc, v float64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
	}
	for name, r := range known {
		gauge(s.age, time.Since(r.oldest).Seconds(), name)
		gauge(s.series, float64(r.series), name)
	}
	for backend, n := range active {
		gauge(s.questions, float64(n), backend)
	}
}

// topics returns those of the rules and of Watch.
func (c *Cache) topics() []*topic {
	c.mu.RLock()
	defer c.mu.RUnlock()
	rules := c.plan.rules
	all := make([]*topic, 0, len(rules)+len(c.asked))
	for _, t := range rules {
		all = append(all, t)
	}
	for _, t := range c.asked {
		all = append(all, t)
	}
	return all
}
