package model

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// Gateway simulates the servers of one model and the gateway in front of them, on a clock. It is safe for
// concurrent use.
type Gateway struct {
	spec  Spec
	clock func() time.Time
	start time.Time
	speed float64

	mu      sync.Mutex
	now     time.Duration   // traffic time
	servers []*server       // by id
	future  []trace.Request // not arrived yet, in order of arrival
	queued  []*request      // arrived while no server was ready
	waits   []time.Duration // queue time of each request that a server took
	counts  Counts
}

// Counts are numbers of requests since the start. Arrived always equals Queued + Waiting + Running + Done.
type Counts struct {
	Left    int // requests of the trace that have not arrived yet
	Arrived int
	Queued  int // queued at the gateway because no server is ready
	Waiting int // in servers' queues
	Running int
	Done    int
}

// NewGateway returns a gateway without servers. Its traffic time starts now and runs speed times as fast as
// the clock. The speed must be positive.
func NewGateway(spec Spec, speed float64, clock func() time.Time) *Gateway {
	return &Gateway{spec: spec, clock: clock, start: clock(), speed: speed}
}

// lock locks the gateway, advances the traffic to the clock, and returns the function that unlocks it.
func (g *Gateway) lock() (unlock func()) {
	g.mu.Lock()
	g.advance(time.Duration(float64(g.clock().Sub(g.start)) * g.speed))
	return g.mu.Unlock
}

// Speed is the traffic time per second of the clock, in seconds.
func (g *Gateway) Speed() float64 { return g.speed }

// Play starts a trace now. It fails before an earlier trace has ended.
func (g *Gateway) Play(t trace.Trace) error {
	defer g.lock()()
	if len(g.future) > 0 {
		return fmt.Errorf("trace %s cannot start at %s: other traffic is under way", t.Name, g.now)
	}
	for _, r := range t.Requests {
		r.At += g.now
		g.future = append(g.future, r)
	}
	return nil
}

// Add adds a server whose model is loaded after the given time on the clock. It fails if the id is taken or
// the model does not fit into the slice.
func (g *Gateway) Add(id string, s Slice, load time.Duration) error {
	defer g.lock()()
	if g.find(id) != nil {
		return fmt.Errorf("server %s: exists", id)
	}
	e, err := newEngine(g.spec, s)
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	g.servers = append(g.servers, newServer(id, e, g.now+time.Duration(float64(load)*g.speed)))
	slices.SortFunc(g.servers, func(a, b *server) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// Remove removes a server. Its requests go to other servers and start again; none is lost. An unknown id
// changes nothing.
func (g *Gateway) Remove(id string) {
	defer g.lock()()
	s := g.find(id)
	if s == nil {
		return
	}
	g.servers = slices.DeleteFunc(g.servers, func(other *server) bool { return other == s })
	for _, r := range append(s.running, s.waiting...) {
		r.prefilled, r.generated = 0, 0
		g.dispatch(r)
	}
}

// advance moves traffic time forward; an earlier time changes nothing.
func (g *Gateway) advance(to time.Duration) {
	for {
		at, happen := g.next()
		if happen == nil || at > to {
			break
		}
		g.now = max(g.now, at)
		happen()
	}
	g.now = max(g.now, to)
}

// next returns the earliest event: an arrival, the end of a step, or a ready server that has something to do.
func (g *Gateway) next() (at time.Duration, happen func()) {
	if len(g.future) > 0 {
		at, happen = g.future[0].At, g.arrive
	}
	for _, s := range g.servers {
		switch {
		case s.stepping:
			if happen == nil || s.until < at {
				at, happen = s.until, func() { g.counts.Done += s.end() }
			}
		case len(s.waiting) > 0 || len(s.running) > 0:
			if start := max(s.ready, g.now); happen == nil || start < at {
				at, happen = start, func() { s.begin(g.now, g.waited) }
			}
		case len(g.queued) > 0:
			if start := max(s.ready, g.now); happen == nil || start < at {
				at, happen = start, g.release
			}
		}
	}
	return at, happen
}

func (g *Gateway) waited(d time.Duration) { g.waits = append(g.waits, d) }

func (g *Gateway) arrive() {
	r := g.future[0]
	g.future = g.future[1:]
	g.counts.Arrived++
	g.dispatch(&request{Request: r, arrived: r.At})
}

// dispatch sends a request to the ready server with the fewest waiting requests, then the fewest running
// ones, then the first id.
func (g *Gateway) dispatch(r *request) {
	var best *server
	for _, s := range g.servers {
		if s.ready > g.now {
			continue
		}
		if best == nil || len(s.waiting) < len(best.waiting) ||
			len(s.waiting) == len(best.waiting) && len(s.running) < len(best.running) {
			best = s
		}
	}
	if best == nil {
		g.queued = append(g.queued, r)
		return
	}
	best.waiting = append(best.waiting, r)
}

func (g *Gateway) release() {
	queued := g.queued
	g.queued = nil
	for _, r := range queued {
		g.dispatch(r)
	}
}

func (g *Gateway) find(id string) *server {
	if i := slices.IndexFunc(g.servers, func(s *server) bool { return s.id == id }); i >= 0 {
		return g.servers[i]
	}
	return nil
}

// Counts of requests now.
func (g *Gateway) Counts() Counts {
	defer g.lock()()
	c := g.counts
	c.Left, c.Queued = len(g.future), len(g.queued)
	for _, s := range g.servers {
		c.Waiting += len(s.waiting)
		c.Running += len(s.running)
	}
	return c
}

// Wait returns the given quantile (0 … 1) of the traffic time that requests spent in a queue before a server
// took them, and false if there was no request yet.
func (g *Gateway) Wait(quantile float64) (time.Duration, bool) {
	defer g.lock()()
	if len(g.waits) == 0 || !(quantile >= 0 && quantile <= 1) {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(g.waits))
	return sorted[min(len(sorted)-1, int(quantile*float64(len(sorted))))], true
}

// Handler serves the metrics of one server. It answers 503 for a server that is gone or still loads its
// model, just as a closed port gives no metrics.
func (g *Gateway) Handler(id string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var families []*dto.MetricFamily
		var err error
		unlock := g.lock()
		if s := g.find(id); s != nil && s.ready <= g.now {
			families, err = s.metrics.Gather()
		}
		unlock()
		if families == nil && err == nil {
			http.Error(w, "the model is not loaded", http.StatusServiceUnavailable)
			return
		}
		promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err }), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}
