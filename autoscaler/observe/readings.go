package observe

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier runs PromQL queries; *prom.Client implements it.
type Querier interface {
	// Query returns the vector of promql at a time; the zero time is the server's now.
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
}

// Prometheus takes Readings in the background, so that a slow server does not delay a reconcile.
// Readings grow old, and then count as unknown.
type Prometheus struct {
	querier Querier
	trusted trust.Exporters
	every   time.Duration
	log     *slog.Logger
	latest  atomic.Pointer[Readings]
	failing atomic.Bool
	silent  atomic.Bool // the latest answers have no exporter's series
	idle    func() bool // whether answers may be older; nil for never
	maxAge  time.Duration
}

// NewPrometheus returns a reader whose Run queries once per interval, for the series of trusted
// targets.
func NewPrometheus(q Querier, trusted trust.Exporters, every time.Duration, log *slog.Logger) *Prometheus {
	return &Prometheus{querier: q, trusted: trusted, every: every, log: log}
}

// AskRarely has Run skip queries while idle returns true, as long as the latest answers stay within
// maxAge for every node: skipping makes no value unknown. Call it before Run.
func (p *Prometheus) AskRarely(maxAge time.Duration, idle func() bool) {
	p.maxAge, p.idle = maxAge, idle
}

// due reports whether it is time for the next query.
func (p *Prometheus) due(now time.Time) bool {
	last := p.latest.Load()
	if p.idle == nil || last == nil || p.failing.Load() || !p.idle() {
		return true
	}
	return last.oldest(p.maxAge)+now.Sub(last.Taken)+2*p.every > p.maxAge // the next chance would be too late
}

// Latest returns the latest complete set of answers, nil before the first.
func (p *Prometheus) Latest() *Readings { return p.latest.Load() }

// Run queries until ctx ends. It always returns nil.
func (p *Prometheus) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if p.due(time.Now()) {
			p.once(ctx)
		}
	}, p.every)
	return nil
}

func (p *Prometheus) once(ctx context.Context) {
	r, err := Read(ctx, p.querier, p.trusted, time.Now())
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !p.failing.Swap(true) {
			p.log.Warn("Prometheus does not answer; allocations become unknown", "err", err)
		}
		return
	}
	if p.failing.Swap(false) {
		p.log.Info("Prometheus answers again")
	}
	p.report(len(r.nodes) > 0)
	p.latest.Store(r)
}

// report logs when the trusted exporters' series appear or disappear.
func (p *Prometheus) report(found bool) {
	switch {
	case !found && !p.silent.Swap(true):
		p.log.Warn("Prometheus has no series of a trusted exporter; allocations are unknown",
			"metric", metric.GPUAttributionAgeSeconds.Name, "exporterNamespaces", []string(p.trusted))
	case found && p.silent.Swap(false):
		p.log.Info("Prometheus has the exporters' series again")
	}
}

// aged is the value of a series that is an age or a duration up to now, the time since its scrape
// included.
func aged(selector string) string {
	return fmt.Sprintf("%[1]s + (time() - timestamp(%[1]s))", selector)
}

// computedBefore leaves out devices that compute: with the age added they would look idle since the
// scrape.
func computedBefore(selector string) string {
	return fmt.Sprintf("(%s) and (%s > 0)", aged(selector), selector)
}

func plain(selector string) string { return selector }

// doubted leaves out GPUs of which no target with their index says that they are sick: nothing is decided by a GPU that
// is healthy, and nearly all are, but targets may disagree about one that is not.
func doubted(selector string) string {
	return fmt.Sprintf("%[1]s and on (%[2]s) (%[1]s == 0)", selector, metric.LabelGPU)
}

// Read queries everything that trusted targets report once, at one instant of Prometheus' clock. A
// partial answer is an error: what is missing must not look free.
//
// Series of other targets are left out by the queries: the owner of any scraped pod can serve series
// of these names, and too many for a complete answer.
func Read(ctx context.Context, q Querier, trusted trust.Exporters, now time.Time) (*Readings, error) {
	// A node's series have no namespace on the page, a pod's may.
	node := func(d metric.Desc, of func(string) string) string { return of(trusted.Selector(d.Name)) }
	pod := func(d metric.Desc, of func(string) string) string {
		return trusted.Query(d.Name, metric.GPUAttributionAgeSeconds.Name, of)
	}
	r := newReadings(now)
	var at time.Time // of the first answer
	for n, want := range []struct {
		take  func(*prom.Sample)
		query string
	}{
		{r.age, node(metric.GPUAttributionAgeSeconds, aged)},
		{r.info, node(metric.GPUInfo, plain)},
		{r.instanceInfo, node(metric.GPUInstanceInfo, plain)},
		{r.allocated, pod(metric.GPUHeld, plain)},
		{r.busy, pod(metric.GPUBusyRatio, plain)},
		{r.busy, pod(metric.GPUInstanceBusyRatio, plain)},
		{r.sampleAge, node(metric.GPUSampleAgeSeconds, aged)},
		{r.healthy, node(metric.GPUHealthy, doubted)},
		{r.idle, pod(metric.GPUIdleSeconds, computedBefore)},
	} {
		if n > 0 && at.IsZero() {
			break // no exporter
		}
		vector, err := q.Query(ctx, want.query, at)
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", want.query, err)
		}
		if n == 0 && len(vector) > 0 {
			at = vector[0].Time
		}
		for i := range vector {
			want.take(&vector[i])
		}
	}
	return r, nil
}

// Readings are the exporters' samples, read through Prometheus. They are immutable. Nil Readings
// know nothing.
type Readings struct {
	// Taken is the time of the query, on our clock.
	Taken time.Time
	nodes map[string]*nodeReading
}

// nodeReading has the samples of one node's exporter.
type nodeReading struct {
	age   time.Duration // of the attribution at Taken, scrape included
	aged  bool          // age is known
	taken time.Time     // as the Readings'
	gpus  map[int]*gpuReading
	// allocated counts devices by pod, "namespace/pod".
	allocated map[string]int
}

// agreed is a value that every target must report alike: where they differ it is unknown.
type agreed[T comparable] struct {
	value           T
	known, disputed bool
}

func (t *agreed[T]) add(v T) {
	t.disputed = t.disputed || t.known && t.value != v
	t.value, t.known = v, true
}

// deviceReading has the samples of a GPU or of a MIG device.
type deviceReading struct {
	allocatedTo, containers []string // pods, "namespace/name", and their containers
	busy                    agreed[float64]
	age                     time.Duration  // of busy
	aged                    bool           // age is known
	idlePod                 agreed[string] // that has not computed on it since idleSince
	idleSince               time.Time
}

// unused returns since when the one pod that the device is allocated to has not computed on it, zero if that is unknown.
func (d *deviceReading) unused(measured bool) time.Time {
	if !measured || d.idlePod.disputed || len(d.allocatedTo) != 1 || d.allocatedTo[0] != d.idlePod.value {
		return time.Time{}
	}
	return d.idleSince
}

// ratio of busyness is unknown unless it and its age are known and undisputed.
func (d *deviceReading) ratio() sample.Value {
	if !d.busy.known || !d.aged || d.busy.disputed {
		return sample.Unknown()
	}
	return sample.Known(d.busy.value, d.age)
}

type gpuReading struct {
	deviceReading
	info      agreed[gpuInfo]
	health    agreed[gpu.Health]
	judges    []string                    // the pods whose gpu_healthy is 0, "namespace/pod"
	instances map[string]*instanceReading // by GPU instance id; nil for none
}

type gpuInfo struct {
	uuid, model string
	mig         bool
}

type instanceReading struct {
	deviceReading
	info agreed[instanceInfo]
}

type instanceInfo struct {
	profile, uuid string
	start         int // first memory slice, -1 if unknown
}

// usable reports whether it is known which GPU and instances the values are about.
func (r *gpuReading) usable() bool {
	if r == nil || !r.info.known || r.info.disputed {
		return false
	}
	for _, i := range r.instances {
		if i.info.disputed {
			return false
		}
	}
	return true
}

// disputed reports whether targets disagree on any value.
func (r *gpuReading) disputed() bool {
	for _, i := range r.instances {
		if i.info.disputed || i.busy.disputed {
			return true
		}
	}
	return r.info.disputed || r.busy.disputed || r.health.disputed
}

// node returns the reading of a node, nil if there is none or it is older than maxAge at now.
func (r *Readings) node(name string, now time.Time, maxAge time.Duration) *nodeReading {
	if r == nil {
		return nil
	}
	n, ok := r.nodes[name]
	if !ok || !n.aged || n.age+max(0, now.Sub(r.Taken)) > maxAge {
		return nil
	}
	return n
}

// without returns how many nodes of the readings are not among these.
func (r *Readings) without(nodes []corev1.Node) int {
	if r == nil {
		return 0
	}
	unknown := len(r.nodes)
	for i := range nodes {
		if _, ok := r.nodes[nodes[i].Name]; ok {
			unknown--
		}
	}
	return unknown
}

// oldest returns the greatest age at Taken of the nodes' samples that are within maxAge.
func (r *Readings) oldest(maxAge time.Duration) time.Duration {
	var age time.Duration
	for _, n := range r.nodes {
		if n.aged && n.age <= maxAge {
			age = max(age, n.age)
		}
	}
	return age
}
