package fleet

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
)

const (
	// surveyEvery is the interval between surveys of the GPUs. Reconciles are a second
	// apart; a survey of 8,000 GPUs in each would cost more than planning.
	surveyEvery = 10 * time.Second
	// idleSurveyEvery is the interval after idle reconciles, in which only the use of
	// GPUs changes.
	idleSurveyEvery = 3 * surveyEvery
	// maxRows of the ledger, maxShapes of pending demand, maxNamed tenants and HPAs.
	maxRows, maxShapes, maxNamed = 2000, 100, 2000
)

// Reconcile is the result of one reconcile of the loop.
type Reconcile struct {
	*observe.Observation
	Plan    *plan.Plan
	Results []act.Result
	// Acted is when the actions ended.
	Acted time.Time
	// Idle means that no pod is pending and nothing is about to change.
	Idle bool
}

// Fleet is a prometheus.Collector of the reconciles' series. It is safe for concurrent
// use.
type Fleet struct {
	mu        sync.Mutex
	leading   bool
	surveyed  time.Time
	ledger    *capacity.Ledger
	begun     time.Time                       // when the ledger started at zero
	gauges    map[string]*prometheus.GaugeVec // of the last survey
	counts    *counts
	latencies *latencies
}

// New returns a Fleet without series, until Lead.
func New() *Fleet {
	f := &Fleet{gauges: newGauges()}
	f.reset()
	return f
}

// reset deletes all state.
func (f *Fleet) reset() {
	f.surveyed, f.begun = time.Time{}, time.Time{}
	f.clear()
	f.ledger = newLedger()
	f.counts, f.latencies = newCounts(), newLatencies()
}

func (f *Fleet) clear() {
	for _, g := range f.gauges {
		g.Reset()
	}
}

func newLedger() *capacity.Ledger {
	o := capacity.DefaultLedgerOptions()
	o.MaxRows = maxRows
	return capacity.NewLedger(o)
}

// Lead sets whether this replica leads. Without leading it has no series; when it leads
// again, they restart at zero: other replicas have counted in between.
func (f *Fleet) Lead(leading bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leading != leading {
		f.reset()
	}
	f.leading = leading
}

// Observe adds a reconcile. An error means that the ledger of GPU time has rejected it,
// for example because the clock went back, and has restarted at zero.
func (f *Fleet) Observe(r Reconcile) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latencies.observe(&r)
	f.counts.observe(&r)
	every := surveyEvery
	if r.Idle {
		every = idleSurveyEvery
	}
	if since := r.Now.Sub(f.surveyed); !f.surveyed.IsZero() && since >= 0 && since < every {
		// The GPUs' states are those of the last survey; the counters advance in every
		// reconcile, since scrapes are not aligned with surveys.
		_ = f.ledger.Advance(r.Now) // an error recurs at the next survey, which returns it
		return nil
	}
	f.surveyed = r.Now
	survey := capacity.NewSurvey(r.Snapshot, capacity.DefaultRules())
	if f.begun.IsZero() {
		f.begun = r.Now
	}
	err := f.account(&survey)
	f.clear()
	f.gpus(&survey)
	f.pools(&r)
	f.tenants(&r)
	f.demand(&survey, &r)
	f.hpas(&r)
	f.forecasts(&survey, &r)
	return err
}

// account adds a survey to the ledger.
func (f *Fleet) account(survey *capacity.Survey) error {
	o := survey.Observation()
	err := f.ledger.Add(o)
	if err == nil {
		return nil
	}
	f.ledger, f.begun = newLedger(), survey.At
	_ = f.ledger.Add(o) // an empty ledger accepts any time
	return fmt.Errorf("the ledger of GPU time restarts at zero: %w", err)
}

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range counterDescs {
		ch <- d
	}
	for _, g := range f.gauges {
		g.Describe(ch)
	}
	for _, c := range f.events() {
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
	for _, g := range f.gauges {
		g.Collect(ch)
	}
	f.times(ch)
	for _, c := range f.events() {
		c.Collect(ch)
	}
}

// events are the series that accumulate in each reconcile.
func (f *Fleet) events() []prometheus.Collector {
	return []prometheus.Collector{f.counts.failures, f.counts.interruptions, f.latencies.pods, f.latencies.nodes, f.latencies.decisions}
}

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

// times collects GPU time by use, and its total.
func (f *Fleet) times(ch chan<- prometheus.Metric) {
	rows := f.ledger.Rows()
	for i := 0; i < len(rows); {
		sum := capacity.Time(0)
		pool, model := rows[i].Pool, rows[i].Model
		for ; i < len(rows) && rows[i].Pool == pool && rows[i].Model == model; i++ {
			sum += f.row(ch, &rows[i])
		}
		ch <- f.counter(metric.AutoscalerCapacityGPUSeconds, seconds(sum), pool, model)
	}
}

// row collects the uses of one row and returns their sum. All uses that the row can have
// are exported from the start, at 0: otherwise rate() would miss the first increase.
func (f *Fleet) row(ch chan<- prometheus.Metric, r *capacity.Row) (sum capacity.Time) {
	allocated := r.Tenant != "" || r.Namespace != ""
	for p := range capacity.NumPlaces {
		if v := r.Time[p]; v != 0 || p.OfPod() == allocated {
			ch <- f.counter(metric.AutoscalerGPUSeconds, seconds(v), r.Pool, r.Model, r.Tenant, r.Namespace, p.String())
			sum += v
		}
	}
	return sum
}

// seconds of whole GPUs.
func seconds(t capacity.Time) float64 { return float64(t) / (capacity.GPUShares * 1000) }

// gpus adds the states of the GPUs.
func (f *Fleet) gpus(sv *capacity.Survey) {
	for _, row := range sv.Supply() {
		for s := range capacity.NumStates {
			f.add(metric.AutoscalerGPUs, row.Size[s].GPUs(), row.Pool, row.Model, s.String())
		}
	}
	for _, loss := range sv.Stranded() {
		f.add(metric.AutoscalerStrandedGPUs, loss.Size.GPUs(), loss.Pool, loss.Cause.String())
	}
}
