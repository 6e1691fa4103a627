package loop

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ages tells, whenever it is asked, how old what was last planned on is: of a
// loop that hangs it grows. What was never read has no age.
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

// clock takes the loop's, by which snapshots are dated.
func (a *ages) clock(now func() time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = now
}

// observed notes a snapshot, and how old what Prometheus said was by then; a
// negative age for nothing said.
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
