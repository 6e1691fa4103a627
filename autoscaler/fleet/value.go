package fleet

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// value is a gauge; labels are the label values in the order of its Desc.
type value struct {
	desc   *prometheus.Desc
	number float64
	labels [3]string
	n      int // of labels
}

func (v *value) metric() prometheus.Metric {
	return prometheus.MustNewConstMetric(v.desc, prometheus.GaugeValue, v.number, v.labels[:v.n]...)
}

// newDescs returns the Descs of all series but the histograms.
func newDescs() map[string]*prometheus.Desc {
	out := map[string]*prometheus.Desc{}
	for _, d := range []metric.Desc{
		metric.AutoscalerGPUSeconds, metric.AutoscalerCapacityGPUSeconds, metric.AutoscalerGPUs, metric.AutoscalerStrandedGPUs,
		metric.AutoscalerTenantGPUs, metric.AutoscalerPoolPrice, metric.AutoscalerCost, metric.AutoscalerPendingGPUs,
		metric.AutoscalerPoolFailures, metric.AutoscalerPoolBackoff, metric.AutoscalerFrozen, metric.AutoscalerInterruptions,
		metric.AutoscalerHPAReplicas, metric.AutoscalerHPALimited, metric.AutoscalerForecastGPUs, metric.AutoscalerForecastError,
	} {
		out[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
	return out
}

// add adds a gauge.
func (f *Fleet) add(d metric.Desc, number float64, labels ...string) {
	v := value{desc: f.descs[d.Name], number: number, n: len(labels)}
	for i, l := range labels {
		v.labels[i] = named(l)
	}
	f.gauges = append(f.gauges, v)
}

// counter is a counter of the ledger. It was 0 at f.begun, its created timestamp, so that
// rate() sees the first increase.
func (f *Fleet) counter(d metric.Desc, number float64, labels ...string) prometheus.Metric {
	for i, l := range labels {
		labels[i] = named(l)
	}
	return prometheus.MustNewConstMetricWithCreatedTimestamp(f.descs[d.Name], prometheus.CounterValue, number, f.begun, labels...)
}

// named is a label that is never empty, since Prometheus takes an empty one for none
// and puts the target's own in its place.
func named(label string) string { return cmp.Or(label, metric.NotApplicable) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
