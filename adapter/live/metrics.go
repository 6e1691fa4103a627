package live

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// states reports what is in force at the time of the scrape.
type states struct {
	of                        *Configuration
	rule, good, since, failed *prometheus.Desc
	info                      *prometheus.Desc
}

func newStates(c *Configuration) states {
	desc := func(d metric.Desc) *prometheus.Desc { return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil) }
	return states{
		of: c, rule: desc(metric.AdapterRuleState), good: desc(metric.AdapterReloadGood), since: desc(metric.AdapterReloadTime),
		failed: desc(metric.AdapterReloadFailures), info: desc(metric.AdapterConfigInfo),
	}
}

// Describe implements prometheus.Collector.
func (s states) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.rule, s.good, s.since, s.failed, s.info} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s states) Collect(ch chan<- prometheus.Metric) {
	s.of.mu.Lock()
	f, bad := s.of.force, s.of.bad
	s.of.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, r := range f.Rules {
		for _, state := range States() {
			gauge(s.rule, flag(r.State == state), r.Name, string(state))
		}
	}
	gauge(s.good, flag(f.Failure == nil))
	gauge(s.since, float64(f.Since.UnixMilli())/1000)
	gauge(s.info, 1, f.Hash)
	ch <- prometheus.MustNewConstMetric(s.failed, prometheus.CounterValue, float64(bad))
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
