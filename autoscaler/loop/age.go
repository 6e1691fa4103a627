package loop

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ages exports the age of the last snapshot, computed at each scrape: it grows while
// the loop hangs. A source that was never read has no series.
type ages struct {
	desc *prometheus.Desc
	now  func() time.Time

	mu    sync.Mutex
	taken map[string]time.Time // by kind
}

func newAges() *ages {
	d := metric.AutoscalerSnapshotAge
	return &ages{desc: prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), now: time.Now, taken: map[string]time.Time{}}
}

// setClock sets the loop's clock, which dates the snapshots.
func (a *ages) setClock(now func() time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = now
}

// observed records a snapshot taken at the time, and the age of Prometheus' readings
// in it; a negative age means no readings.
func (a *ages) observed(at time.Time, readings time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken["cluster"] = at
	delete(a.taken, "prometheus")
	if readings >= 0 {
		a.taken["prometheus"] = at.Add(-readings)
	}
}

// Describe implements prometheus.Collector.
func (a *ages) Describe(c chan<- *prometheus.Desc) { c <- a.desc }

// Collect implements prometheus.Collector.
func (a *ages) Collect(c chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for kind, at := range a.taken {
		c <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, max(0, a.now().Sub(at).Seconds()), kind)
	}
}
