package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// Verbs of timed steps.
const (
	verbRead     = "read"
	verbDestroy  = "destroy"
	verbCreate   = "create"
	verbExporter = "exporter"
	verbPlugin   = "plugin"
)

// Phases of an operation, and their results.
const (
	phaseRepartition = "repartition"
	phaseRestore     = "restore"

	resultDone        = "done"
	resultRefused     = "refused"
	resultFailed      = "failed"
	resultInterrupted = "interrupted"
)

// reasons are the label values of the driver's errors.
var reasons = []struct {
	err  error
	word string
}{
	{hardware.ErrLost, "lost"}, {hardware.ErrInUse, "in_use"}, {hardware.ErrNoFreeSlices, "no_free_slices"}, {hardware.ErrNeedsReset, "needs_reset"},
	{hardware.ErrHanging, "hanging"}, {hardware.ErrNoSuchGPU, "no_such_gpu"}, {hardware.ErrNoLibrary, "no_library"},
}

const reasonOther = "other"

func reasonOf(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return reasonOther
}

// Metrics are an agent's own metrics.
type Metrics struct {
	operations *prometheus.CounterVec
	steps      *prometheus.HistogramVec
	gpus       *prometheus.GaugeVec
	may        prometheus.Gauge
	last       prometheus.Gauge
	errors     *prometheus.CounterVec
}

// newMetrics registers the agent's series.
func newMetrics(r prometheus.Registerer) *Metrics {
	opts := func(d metric.Desc) prometheus.Opts { return prometheus.Opts{Name: d.Name, Help: d.Help} }
	m := &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AgentOperations)), metric.AgentOperations.Labels),
		gpus:       prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AgentGPUs)), metric.AgentGPUs.Labels),
		may:        prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AgentPermitted))),
		last:       prometheus.NewGauge(prometheus.GaugeOpts(opts(metric.AgentLastReport))),
		errors:     prometheus.NewCounterVec(prometheus.CounterOpts(opts(metric.AgentNVMLErrors)), metric.AgentNVMLErrors.Labels),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric.AgentStepSeconds.Name, Help: metric.AgentStepSeconds.Help,
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, metric.AgentStepSeconds.Labels),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(metric.AgentBuildInfo)), metric.AgentBuildInfo.Labels)
	info.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	for _, reason := range reasons {
		m.errors.WithLabelValues(reason.word)
	}
	m.errors.WithLabelValues(reasonOther)
	r.MustRegister(info, m.operations, m.steps, m.gpus, m.may, m.last, m.errors)
	return m
}

// timed records the duration of a step.
func (m *Metrics) timed(verb string, since time.Time) {
	m.steps.WithLabelValues(verb).Observe(time.Since(since).Seconds())
}

// failed counts an error of the driver; nil is none.
func (m *Metrics) failed(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		m.errors.WithLabelValues(reasonOf(err)).Inc()
	}
}

// machine records the state of the GPUs; without a successful read the series are absent.
func (m *Metrics) machine(read hardware.Machine, err error) {
	m.gpus.Reset()
	if err != nil {
		return
	}
	count := map[string]int{"mig": 0, "whole": 0, "unreadable": 0}
	for _, c := range read.GPUs {
		switch {
		case c.Err != nil:
			count["unreadable"]++
		case c.MIG:
			count["mig"]++
		default:
			count["whole"]++
		}
	}
	for state, n := range count {
		m.gpus.WithLabelValues(state).Set(float64(n))
	}
}

func (m *Metrics) permitted(may bool) {
	m.may.Set(0)
	if may {
		m.may.Set(1)
	}
}

// step times a change by the driver and counts its error.
func (m *Metrics) step(verb string, do func() error) error {
	defer m.timed(verb, time.Now())
	err := do()
	m.failed(err)
	return err
}
