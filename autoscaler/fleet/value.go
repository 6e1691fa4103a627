package fleet

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// counterDescs are the series of the ledger.
var counterDescs = descs(metric.AutoscalerGPUSeconds, metric.AutoscalerCapacityGPUSeconds)

func descs(list ...metric.Desc) map[string]*prometheus.Desc {
	out := map[string]*prometheus.Desc{}
	for _, d := range list {
		out[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
	return out
}

// newGauges returns the gauges, which each survey sets again.
func newGauges() map[string]*prometheus.GaugeVec {
	out := map[string]*prometheus.GaugeVec{}
	for _, d := range []metric.Desc{
		metric.AutoscalerGPUs, metric.AutoscalerStrandedGPUs, metric.AutoscalerTenantGPUs, metric.AutoscalerPoolPrice, metric.AutoscalerCost,
		metric.AutoscalerPendingGPUs, metric.AutoscalerPoolBackoff, metric.AutoscalerFrozen, metric.AutoscalerHPAReplicas,
		metric.AutoscalerHPALimited, metric.AutoscalerForecastGPUs, metric.AutoscalerForecastError,
	} {
		out[d.Name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
	}
	return out
}

// add adds to a gauge of this survey, which begins at 0.
func (f *Fleet) add(d metric.Desc, number float64, labels ...string) {
	f.gauges[d.Name].WithLabelValues(allNamed(labels)...).Add(number)
}

// counter is a counter of the ledger. It was 0 at f.begun, its created timestamp, so that
// rate() sees the first increase.
func (f *Fleet) counter(d metric.Desc, number float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetricWithCreatedTimestamp(counterDescs[d.Name], prometheus.CounterValue, number, f.begun, allNamed(labels)...)
}

// named is a label that is never empty, since Prometheus takes an empty one for none
// and puts the target's own in its place.
func named(label string) string { return cmp.Or(label, metric.NotApplicable) }

func allNamed(labels []string) []string {
	for i, l := range labels {
		labels[i] = named(l)
	}
	return labels
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
