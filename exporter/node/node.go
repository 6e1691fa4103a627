package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// MinInterval is the shortest sampling interval: DCGM refuses faster on Hopper,
// and 10 Hz already costs the workload.
const MinInterval = 100 * time.Millisecond

// Options of a Node. Name, Source and Interval are required.
type Options struct {
	// Name is the Kubernetes node: the node label.
	Name string
	// Source is read from one goroutine and closed when Run ends.
	Source collect.Source
	// Interval between readings.
	Interval time.Duration
	// Pods says who holds what; nil leaves every series without holder.
	Pods *pods.Watcher
	// Compat shapes the DCGM_* series. Reload changes its counters.
	Compat collect.CompatOptions
	// Extras gives further labels of the DCGM series. It is called for each page
	// and must not block. nil gives none.
	Extras func() collect.Extras
	// ExtrasChanged receives after Extras gives other labels than before.
	ExtrasChanged <-chan struct{}
	// Observe is handed each reading once and must not block. nil for none.
	Observe func(*collect.Reading)
	// RuntimeMetrics serves the Go runtime's and the process' own metrics too.
	RuntimeMetrics bool
	// MaxSeries is how many GPU series are served at most; 0 is any number.
	MaxSeries int
	// Compress serves gzip to scrapers that take it.
	Compress bool
	Log      *slog.Logger
}

// Node samples one node and serves what it saw.
type Node struct {
	opts     Options
	log      *slog.Logger
	compiler *collect.Compiler
	metrics  *metrics
	sampler  *sampler
	page     atomic.Pointer[collect.Page]
	self     atomic.Pointer[selfPage]
	ledger   *collect.Ledger // of the compile loop
	beat     atomic.Int64    // when the compile loop last turned, Unix nanoseconds

	pending atomic.Pointer[reload] // counters asked for and not served yet

	// Of the compile loop only:
	serving    *fieldSet        // what the compiler's counters are made of
	shown      *collect.Reading // what the page was made of
	unresolved []string         // device ids last warned about
	absent     []string         // devices asked for and not there, last warned about
}

// New returns a Node that does nothing until Run.
func New(o Options) (*Node, error) {
	if o.Interval < MinInterval {
		return nil, fmt.Errorf("collect interval %s: at least %s", o.Interval, MinInterval)
	}
	if o.Name == "" || o.Source == nil {
		return nil, errors.New("a node needs a name and a source")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Compat.Mode == "" {
		o.Compat.Mode = collect.CompatExact
	}
	n := &Node{opts: o, log: o.Log, ledger: collect.NewLedger(o.Interval)}
	n.metrics = newMetrics(n.attributionErrors)
	if o.RuntimeMetrics {
		n.metrics.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	n.sampler = newSampler(o, n.metrics)
	n.compiler, n.serving = n.newCompiler(o.Compat), n.sampler.wants.Load()
	n.beat.Store(time.Now().UnixNano())
	if n.describe(); n.self.Load().err != nil {
		return nil, n.self.Load().err
	}
	return n, nil
}

func (n *Node) attributionErrors() float64 {
	if n.opts.Pods == nil {
		return 0
	}
	return float64(n.opts.Pods.Errors())
}

// Run samples, asks the kubelet and makes pages until ctx ends. It returns even
// when the source hangs.
func (n *Node) Run(ctx context.Context) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.sampler.run(ctx)
	}()
	if n.opts.Pods != nil {
		go n.opts.Pods.Run(ctx)
	}
	n.compileLoop(ctx)
	select {
	case <-stopped:
	case <-time.After(closeTimeout):
		n.log.Warn("the source does not let go; leaving it", "after", closeTimeout)
	}
}

// compileLoop makes a page of each reading and of each change of holders. It
// waits for nothing but these, so it is what /livez watches.
func (n *Node) compileLoop(ctx context.Context) {
	tick, self := time.NewTicker(n.opts.Interval), time.NewTicker(selfInterval)
	defer tick.Stop()
	defer self.Stop()
	var answered, changed <-chan struct{}
	if n.opts.Pods != nil {
		answered, changed = n.opts.Pods.Answered(), n.opts.Pods.Changed()
	}
	for {
		n.beat.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			continue
		case <-self.C:
			n.describe()
			continue
		case <-n.sampler.fresh:
		case <-changed:
		case <-n.opts.ExtrasChanged:
		case <-answered:
			answered = nil
		}
		// The first page waits for the kubelet's first answer or failure, so
		// that series do not begin without holders and change a second later.
		if answered == nil {
			n.compile(time.Now())
		}
	}
}

func (n *Node) newCompiler(c collect.CompatOptions) *collect.Compiler {
	return collect.NewCompiler(collect.Options{
		Node: n.opts.Name, Interval: n.opts.Interval, Compat: c, Ledger: n.ledger, MaxSeries: n.opts.MaxSeries,
	})
}

func (n *Node) compile(now time.Time) {
	latest := n.sampler.latest.Load()
	if latest == nil || !n.adopt(latest, now) {
		return
	}
	reading := latest.reading
	if reading != n.shown {
		n.shown = reading
		n.observe(reading)
	}
	page := n.compiler.Compile(reading, n.attribution(reading, now))
	n.metrics.overBudget(page.LeftOut)
	n.page.Store(page)
}

// observe does what is done once for each reading.
func (n *Node) observe(r *collect.Reading) {
	if n.opts.Observe != nil {
		n.opts.Observe(r)
	}
	absent := n.opts.Compat.MissingDevices(r)
	if !slices.Equal(absent, n.absent) {
		n.absent = absent
		if len(absent) > 0 {
			n.log.Warn("devices were asked for that are not there; they are shown when they come", "devices", absent)
		}
	}
}

// attribution joins a reading with the kubelet's newest usable answer.
func (n *Node) attribution(r *collect.Reading, now time.Time) collect.Attribution {
	var a collect.Attribution
	var unresolved []string
	if n.opts.Pods != nil {
		a, unresolved = n.opts.Pods.Attribute(r, now)
	}
	if n.opts.Extras != nil {
		a.Extras = n.opts.Extras()
	}
	if !slices.Equal(unresolved, n.unresolved) {
		n.unresolved = unresolved
		if len(unresolved) > 0 {
			n.log.Warn("containers hold devices that the source does not show", "ids", unresolved)
		}
	}
	return a
}

// Cards tells whether there is a page, and how many cards are on it.
func (n *Node) Cards() (served bool, cards int) {
	page := n.page.Load()
	if page == nil {
		return false, 0
	}
	return true, page.Cards
}

// Ready is nil once there is a page and its reading is not stale, else the
// reason there is none.
func (n *Node) Ready() error {
	page := n.page.Load()
	failure := n.sampler.failure()
	if page == nil {
		if failure != nil {
			return fmt.Errorf("no reading yet: %w", failure)
		}
		return errors.New("no reading yet")
	}
	age := time.Since(page.Taken)
	if age <= collect.StaleAfter(n.opts.Interval) {
		return nil
	}
	if failure == nil {
		failure = errors.New("the source has not answered since")
	}
	return fmt.Errorf("the newest reading is %s old: %w", age.Round(100*time.Millisecond), failure)
}

// Live is nil while the compile loop turns. A hanging source does not end it: a
// restart would only lose what is known.
func (n *Node) Live() error {
	late := time.Since(time.Unix(0, n.beat.Load()))
	if late <= 3*n.opts.Interval+time.Second {
		return nil
	}
	return fmt.Errorf("the loop last turned %s ago", late.Round(time.Second))
}
