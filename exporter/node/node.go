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
// and 10 Hz already slows the workload.
const MinInterval = 100 * time.Millisecond

// Options of a Node. Node, Source and Interval are required.
type Options struct {
	// Interval is at least MinInterval. Reload changes the counters of Compat.
	collect.Options
	// Source is read from one goroutine and closed when Run ends.
	Source collect.Source
	// Beside has handles of the GPUs in addition to the source; nil for nothing.
	Beside collect.Quiescer
	// Pods attributes GPUs to pods; nil leaves every series without a pod.
	Pods *pods.Watcher
	// Jobs gives the batch jobs on the GPUs. It is called for each page and must not block.
	// nil gives none.
	Jobs func() map[collect.JobPlace][]string
	// RuntimeMetrics serves the Go runtime's and the process' own metrics too.
	RuntimeMetrics bool
	// Compress serves gzip to scrapers that take it.
	Compress bool
	Log      *slog.Logger
}

// Node samples one node and serves its readings. Its compile loop, one goroutine, makes a page of each
// reading of the sampler; scrapes render the page.
type Node struct {
	sampler

	serving atomic.Pointer[watch] // whose counters the page has
	page    atomic.Pointer[collect.Page]
	self    atomic.Pointer[selfPage]

	// Of the compile loop only:
	compiler   *collect.Compiler
	shown      *collect.Reading // reading of the page
	unresolved []string         // device ids last logged
	absent     []string         // absent devices of -d, last logged
}

// New returns a Node that does nothing until Run.
func New(o Options) *Node {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Compat.Mode == "" {
		o.Compat.Mode = collect.CompatExact
	}
	n := &Node{sampler: sampler{opts: o, log: o.Log, fresh: make(chan struct{}, 1), jobs: make(chan func())}}
	n.released.Store(&map[string]time.Time{})
	n.metrics = newMetrics(n.sourceUp, n.attributionErrors)
	if o.RuntimeMetrics {
		n.metrics.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	n.compiler = collect.NewCompiler(o.Options)
	first := newWatch(o.Compat, o.Interval)
	n.wants.Store(first)
	n.serving.Store(first)
	n.describe()
	return n
}

// sourceUp is 1 while the source gives fresh values.
func (n *Node) sourceUp() float64 {
	if n.stale(time.Now()) != nil {
		return 0
	}
	return 1
}

func (n *Node) attributionErrors() float64 {
	if n.opts.Pods == nil {
		return 0
	}
	return float64(n.opts.Pods.Errors())
}

// Run samples, requests allocations and makes pages until ctx ends. It returns
// even when the source hangs.
func (n *Node) Run(ctx context.Context) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.sample(ctx)
	}()
	if n.opts.Pods != nil {
		go n.opts.Pods.Run(ctx)
	}
	n.compileLoop(ctx)
	select {
	case <-stopped:
	case <-time.After(closeTimeout):
		n.log.Warn("the source does not close; exiting without it", "after", closeTimeout)
	}
}

// compileLoop makes a page of each reading and of each change of allocations.
func (n *Node) compileLoop(ctx context.Context) {
	tick := time.NewTicker(selfInterval)
	defer tick.Stop()
	var answered, changed <-chan struct{}
	if n.opts.Pods != nil {
		answered, changed = n.opts.Pods.Answered(), n.opts.Pods.Changed()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.describe()
			continue
		case <-n.fresh:
		case <-changed:
		case <-answered:
			answered = nil
		}
		// The first page waits for the kubelet's first answer or failure, so
		// that series do not begin without pods and change a second later.
		if answered == nil {
			n.compile(time.Now())
		}
	}
}

// compile makes a page of the latest reading.
func (n *Node) compile(now time.Time) {
	latest := n.latest.Load()
	if latest == nil || !n.adopt(latest, now) {
		return
	}
	reading := latest.reading
	if reading != n.shown {
		n.shown = reading
		if newlyMissing(&n.absent, n.opts.Compat.Devices.Missing(reading)) {
			n.log.Warn("devices of -d are absent; they are shown when they appear", "devices", n.absent)
		}
	}
	var allocations collect.Attribution
	var unresolved []string
	if n.opts.Pods != nil {
		allocations, unresolved = n.opts.Pods.Attribute(reading, now)
	}
	if n.opts.Jobs != nil {
		allocations.Jobs = n.opts.Jobs()
	}
	if newlyMissing(&n.unresolved, unresolved) {
		n.log.Warn("devices that are allocated to pods are not in the reading", "ids", unresolved)
	}
	page := n.compiler.Compile(reading, allocations)
	count(n.metrics.leftOut, page.LeftOut)
	n.page.Store(page)
}

// newlyMissing stores missing in last. It reports whether the list is not empty and differs from
// the last one.
func newlyMissing(last *[]string, missing []string) bool {
	is := len(missing) > 0 && !slices.Equal(missing, *last)
	*last = missing
	return is
}

// Ready is nil while there is a page and its reading has fresh values, else the
// reason.
func (n *Node) Ready() error {
	if err := n.stale(time.Now()); err != nil {
		return err
	}
	page := n.page.Load()
	if page == nil {
		return errors.New("no page has been made of the reading yet")
	}
	if age := time.Since(page.Taken); age > collect.StaleAfter(n.opts.Interval) {
		return fmt.Errorf("the newest page is %s old", age.Round(100*time.Millisecond))
	}
	return nil
}
