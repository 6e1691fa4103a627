package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/world"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// rateSpan is the time over which the request rate is computed.
const rateSpan = 5 * time.Second

// Watcher measures one world from the start of its traffic.
type Watcher struct {
	story      story.Story
	caches     *node.Cached
	gateway    *model.Gateway
	prometheus *prom.Client
	log        *slog.Logger
	start      time.Time
	total      int // requests of the trace
	decisions  decisions

	mu       sync.Mutex
	at       time.Duration
	tally    tally
	readings readings
	counts   model.Counts
	arrivals []arrival // of the last rateSpan
}

type arrival struct {
	at time.Duration
	n  int
}

// New begins to measure, and follows Events until ctx ends. total is the number of requests in the traffic.
func New(ctx context.Context, s story.Story, w *world.World, total int, log *slog.Logger) (*Watcher, error) {
	c, err := prom.New(prom.Config{URL: w.Cluster.PrometheusURL(), Timeout: 2 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("connecting to Prometheus: %w", err)
	}
	out := &Watcher{
		story: s, caches: w.Caches, gateway: w.Gateway, prometheus: c, log: log, start: time.Now(), total: total,
		decisions: decisions{start: time.Now(), seen: map[string]bool{}},
	}
	if err := out.decisions.follow(w.Caches.Informers.Core().V1().Events().Informer()); err != nil {
		return nil, err
	}
	w.Caches.Informers.Start(ctx.Done())
	return out, nil
}

// Look measures once.
func (w *Watcher) Look(ctx context.Context) {
	r, err := ask(ctx, w.prometheus)
	if err != nil && ctx.Err() == nil {
		w.log.Debug("Prometheus did not answer everything", "error", err)
	}
	wanted := -1
	if t := w.story.Traffic; t != nil {
		if n, ok := w.caches.Wanted(t.Namespace, t.Name); ok {
			wanted = n
		}
	}
	scene := sceneOf(w.story, w.caches.Nodes(), w.caches.Pods(), wanted)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = time.Since(w.start)
	w.readings = r
	w.counts = w.gateway.Counts()
	w.tally.see(scene, w.at, r.busy)
	w.arrivals = append(w.arrivals, arrival{w.at, w.counts.Arrived})
	for len(w.arrivals) > 2 && w.at-w.arrivals[0].at > rateSpan {
		w.arrivals = w.arrivals[1:]
	}
}

// rate is the rate of arrivals in traffic time.
func (w *Watcher) rate() sample.Value {
	if len(w.arrivals) < 2 {
		return sample.Unknown()
	}
	first, last := w.arrivals[0], w.arrivals[len(w.arrivals)-1]
	if last.at <= first.at {
		return sample.Unknown()
	}
	return sample.Known(float64(last.n-first.n)/(last.at-first.at).Seconds()/w.gateway.Speed(), 0)
}

// At is the time of the last look, since the start.
func (w *Watcher) At() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// Decisions returns the decisions since the last call.
func (w *Watcher) Decisions() []view.Decision { return w.decisions.drain() }
