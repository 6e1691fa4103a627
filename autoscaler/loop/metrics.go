package loop

import (
	"cmp"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/fleet"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/plan"
)

// metrics are the loop's series.
type metrics struct {
	leading    prometheus.Gauge
	reconciles *prometheus.CounterVec
	phases     *prometheus.HistogramVec
	last       prometheus.Gauge
	actions    *prometheus.CounterVec
	verdicts   *prometheus.GaugeVec
	ignored    *prometheus.GaugeVec
	exceeded   *prometheus.GaugeVec
	contained  *prometheus.GaugeVec
	unsaved    prometheus.Gauge
	pools      *prometheus.GaugeVec
	pending    prometheus.Gauge
	unserved   prometheus.Gauge
	operating  *prometheus.GaugeVec
	panics     prometheus.Counter
	ages       *ages
	fleet      *fleet.Fleet
}

// newMetrics registers the loop's series. now is the clock that dates snapshots.
func newMetrics(r prometheus.Registerer, now func() time.Time) *metrics {
	m := &metrics{
		leading:    prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AutoscalerLeader))),
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AutoscalerReconciles)), metric.AutoscalerReconciles.Labels),
		last:       prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AutoscalerReconcileAge))),
		actions:    prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AutoscalerActions)), metric.AutoscalerActions.Labels),
		verdicts:   prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerVerdicts)), metric.AutoscalerVerdicts.Labels),
		ignored:    prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerReportsIgnored)), metric.AutoscalerReportsIgnored.Labels),
		exceeded:   prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerLimitExceeded)), metric.AutoscalerLimitExceeded.Labels),
		contained:  prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerInvalidObjects)), metric.AutoscalerInvalidObjects.Labels),
		unsaved:    prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AutoscalerUnsavedPools))),
		pools:      prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerPoolSize)), metric.AutoscalerPoolSize.Labels),
		pending:    prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AutoscalerPendingSlices))),
		unserved:   prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AutoscalerUnservedSlices))),
		operating:  prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerOperations)), metric.AutoscalerOperations.Labels),
		panics:     prometheus.NewCounter(prometheus.CounterOpts(opts(metric.AutoscalerPlannerPanics))),
		ages:       newAges(now),
		fleet:      fleet.New(),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric.AutoscalerReconcileSeconds.Name, Help: metric.AutoscalerReconcileSeconds.Help,
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, metric.AutoscalerReconcileSeconds.Labels),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AutoscalerBuildInfo)), metric.AutoscalerBuildInfo.Labels)
	build.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	r.MustRegister(build, m.leading, m.reconciles, m.phases, m.last, m.actions, m.verdicts, m.ignored, m.exceeded, m.contained, m.unsaved, m.pools, m.pending, m.unserved, m.operating, m.panics, m.ages, m.fleet)
	return m
}

func opts(d metric.Desc) prometheus.Opts { return prometheus.Opts{Name: d.Name, Help: d.Help} }

func (m *metrics) leader(leading bool) {
	m.leading.Set(0)
	if leading {
		m.leading.Set(1)
	}
	m.fleet.Lead(leading)
}

// reports records what the last reconcile left out of the exporters' series, and the namespaces that exceed a limit.
func (m *metrics) reports(i observe.Ignored, all []observe.Exceeded) {
	m.exceeded.Reset()
	for _, e := range all {
		m.exceeded.WithLabelValues(e.Namespace, string(e.Limit)).Set(float64(e.Pods))
	}
	for reason, n := range map[string]int{"unknown_node": i.Nodes, "unknown_gpu": i.GPUs, "disputed": i.Disputed} {
		m.ignored.WithLabelValues(reason).Set(float64(n))
	}
}

// containedObjects counts the objects that were set apart from the last snapshot, by kind.
func (m *metrics) containedObjects(all []plan.Problem) {
	counts := map[plan.Kind]int{}
	for _, p := range all {
		counts[p.Kind]++
	}
	for _, kind := range []plan.Kind{plan.KindPool, plan.KindNode, plan.KindPod, plan.KindTenant, plan.KindForecast} {
		m.contained.WithLabelValues(string(kind)).Set(float64(counts[kind]))
	}
}

func (m *metrics) phase(name string, d time.Duration) {
	m.phases.WithLabelValues(name).Observe(d.Seconds())
}

func (m *metrics) reconcile(err error, now time.Time) {
	if err != nil {
		m.reconciles.WithLabelValues("error").Inc()
		return
	}
	m.reconciles.WithLabelValues("ok").Inc()
	m.last.Set(float64(now.UnixMilli()) / 1000)
}

// publish sets the series from a reconcile whose actions ended at acted, and deletes those of objects that are gone.
func (m *metrics) publish(r Reconcile, acted time.Time) {
	for _, result := range r.Results {
		a := result.Action
		m.actions.WithLabelValues(string(a.Verb), a.Pool, string(a.Reason), cmp.Or(resultLabels[result.Outcome], "skipped")).Inc()
	}
	m.verdicts.Reset()
	for _, v := range r.Plan.Verdicts {
		m.verdicts.WithLabelValues(string(v.Kind), string(v.Reason)).Inc()
	}
	m.pools.Reset()
	ready := readyByPool(r.Nodes)
	for _, p := range r.Pools {
		for kind, n := range map[string]int{
			"min": p.Min, "max": p.Max, "target": p.Target, "size": p.Size, "ready": ready[p.Name],
			"unready": max(0, p.Size-ready[p.Name]), "upcoming": max(0, p.Target-p.Size),
		} {
			if p.Fixed && (kind == "min" || kind == "max") {
				continue // a fixed pool has no bounds
			}
			m.pools.WithLabelValues(p.Name, kind).Set(float64(n))
		}
	}
	m.pending.Set(float64(r.Plan.Totals.PendingSlices))
	m.unserved.Set(float64(r.Plan.Totals.PendingSlicesLeft))
	m.operating.Reset()
	for _, n := range r.Nodes {
		if n.Operation != nil {
			m.operating.WithLabelValues(string(n.Operation.Phase)).Inc()
		}
	}
	m.fleet.Observe(fleet.Reconcile{Observation: &r.Observation, Plan: &r.Plan, Results: r.Results, Acted: acted})
}

// resultLabels are the values of the label result by outcome; others are "skipped".
var resultLabels = map[act.Outcome]string{act.Done: "ok", act.Failed: "error"}

// readyByPool counts the nodes that can take GPU pods.
func readyByPool(nodes []plan.Node) map[string]int {
	out := map[string]int{}
	for _, n := range nodes {
		if n.Ready && len(n.GPUs) > 0 {
			out[n.Pool]++
		}
	}
	return out
}

// ages exports the age of the last snapshot, computed at each scrape: it grows while
// the loop hangs. A source that was never read has no series.
type ages struct {
	desc *prometheus.Desc
	now  func() time.Time

	mu    sync.Mutex
	taken map[string]time.Time // by kind
}

func newAges(now func() time.Time) *ages {
	d := metric.AutoscalerSnapshotAge
	return &ages{desc: prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), now: now, taken: map[string]time.Time{}}
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
