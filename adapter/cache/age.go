package cache

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ages reports each rule's age at the moment of the scrape. A rule that never
// had an answer has no age: it is absent, not zero.
type ages struct {
	entries map[string]*entry
	desc    *prometheus.Desc
}

func newAges(entries map[string]*entry) ages {
	d := metric.AdapterRuleAge
	return ages{entries: entries, desc: prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)}
}

// Describe implements prometheus.Collector.
func (a ages) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a ages) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for name, e := range a.entries {
		if age, ok := e.age(now); ok {
			ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, age.Seconds(), name)
		}
	}
}
