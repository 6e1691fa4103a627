package states

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// measured are the families of durations by this machine's clock, and the seconds that
// replace them: a fake clock. Series and counts stay the program's own.
// TestRecordedAgainItIsTheSame finds what is missing.
var measured = map[string]float64{
	metric.ExporterReadSeconds.Name:   0.004,
	metric.ExporterScrapeSeconds.Name: 0.0007,
	metric.AdapterQuerySeconds.Name:   0.02,
	metric.AdapterRuleAge.Name:        2,
}

// moments are the families that are a time of day of this machine's clock.
var moments = map[string]bool{
	metric.ExporterReloadSuccessTime.Name: true,
	metric.AdapterReloadTime.Name:         true,
}

// steadied replaces measured durations by their fakes. A value of 0 stays: nothing was
// measured. It changes its argument.
func steadied(families []*dto.MetricFamily) []*dto.MetricFamily {
	for _, f := range families {
		seconds, isMeasured := measured[f.GetName()]
		if moments[f.GetName()] {
			seconds, isMeasured = float64(begin.Add(-time.Hour).Unix()), true
		}
		if !isMeasured {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.Gauge != nil && m.Gauge.GetValue() != 0 {
				m.Gauge.Value = new(seconds)
			}
			if m.Histogram != nil {
				took(m.Histogram, m.Histogram.GetSampleCount(), seconds)
			}
		}
	}
	return families
}

// took sets a histogram to so many observations, each of so many seconds.
func took(h *dto.Histogram, observations uint64, seconds float64) {
	h.SampleCount, h.SampleSum = new(observations), new(seconds*float64(observations))
	for _, b := range h.GetBucket() {
		b.CumulativeCount = new(uint64(0))
		if seconds <= b.GetUpperBound() {
			b.CumulativeCount = new(observations)
		}
	}
}
