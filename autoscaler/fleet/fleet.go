package fleet

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

const (
	// surveyEvery is the interval between surveys of the GPUs. Reconciles are a second
	// apart; a survey of 8,000 GPUs in each would cost more than planning.
	surveyEvery = 10 * time.Second
	// Bounds of the series: rows of the ledger, shapes of pending demand, tenants and HPAs.
	maxRows, maxShapes, maxNamed = 2000, 100, 2000
)

// Reconcile is the result of one reconcile of the loop.
type Reconcile struct {
	*observe.Observation
	Plan    *plan.Plan
	Results []act.Result
	// Acted is when the actions ended.
	Acted time.Time
}

// Fleet is a prometheus.Collector of the reconciles' series. It is safe for concurrent
// use.
type Fleet struct {
	mu       sync.Mutex
	leading  bool
	surveyed time.Time
	gpuTime  *gpuTime
	gauges   map[string]*prometheus.GaugeVec // of the last survey
	events   *events
}

// New returns a Fleet without series, until Lead.
func New() *Fleet {
	f := &Fleet{gauges: newGauges()}
	f.reset()
	return f
}

// reset deletes all state.
func (f *Fleet) reset() {
	f.surveyed = time.Time{}
	f.clear()
	f.gpuTime = &gpuTime{used: counters(metric.AutoscalerGPUSeconds), capacity: counters(metric.AutoscalerCapacityGPUSeconds), known: map[key]bool{}}
	f.events = newEvents()
}

func (f *Fleet) clear() {
	for _, g := range f.gauges {
		g.Reset()
	}
}

// Lead sets whether this replica leads. A replica that does not lead has no series. When it leads again its counters
// restart at zero, since other replicas have counted in between.
func (f *Fleet) Lead(leading bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leading != leading {
		f.reset()
	}
	f.leading = leading
}

// Observe adds a reconcile, later than those before: a process' clock is monotonic.
func (f *Fleet) Observe(r Reconcile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.observe(&r)
	if !f.surveyed.IsZero() && r.Now.Sub(f.surveyed) < surveyEvery {
		// The GPUs' states are those of the last survey; the counters advance in every
		// reconcile, since scrapes are not aligned with surveys.
		f.gpuTime.advance(r.Now)
		return
	}
	f.surveyed = r.Now
	survey := newSurvey(&r.Snapshot)
	f.gpuTime.survey(survey)
	f.clear()
	f.gpus(survey)
	f.pools(&r)
	f.tenants(&r)
	scale, _ := ledger.ScaleOf(&r.Snapshot)
	f.demand(scale, &r)
	f.hpas(&r)
	f.forecasts(scale, &r)
}

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range f.series() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (f *Fleet) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.leading {
		return
	}
	for _, c := range f.series() {
		c.Collect(ch)
	}
}

// series returns all collectors.
func (f *Fleet) series() []prometheus.Collector {
	all := []prometheus.Collector{f.gpuTime.used, f.gpuTime.capacity, f.events.failures, f.events.interruptions, f.events.pods, f.events.nodes, f.events.decisions}
	for _, g := range f.gauges {
		all = append(all, g)
	}
	return all
}

func counters(d metric.Desc) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
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
	f.gauges[d.Name].WithLabelValues(allNamed(labels...)...).Add(number)
}

// named returns a label that is never empty. Prometheus treats an empty label as a missing one, and puts the target's
// own in its place.
func named(label string) string { return cmp.Or(label, metric.NotApplicable) }

func allNamed(labels ...string) []string {
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

// gpus adds the states of the GPUs.
func (f *Fleet) gpus(v *survey) {
	for _, k := range slices.SortedFunc(maps.Keys(v.rows), key.compare) { // in a fixed order, on which floating-point sums depend
		for u, gpus := range v.rows[k] {
			f.add(metric.AutoscalerGPUs, gpus, k.pool, k.model, use(u).state())
		}
	}
	for at, gpus := range v.stranded {
		f.add(metric.AutoscalerStrandedGPUs, gpus, at[0], at[1])
	}
}
