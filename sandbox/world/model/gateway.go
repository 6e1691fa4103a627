package model

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// Gateway is a Fleet on the wall clock, safe for concurrent use.
type Gateway struct {
	clock func() time.Time
	start time.Time
	speed float64

	mu    sync.Mutex
	fleet *Fleet
}

// NewGateway returns a fleet whose traffic time starts now and runs at speed
// times the clock. The speed must be positive.
func NewGateway(spec Spec, speed float64, clock func() time.Time) *Gateway {
	return &Gateway{clock: clock, start: clock(), speed: speed, fleet: NewFleet(spec)}
}

// with runs f on the fleet as it is now.
func (g *Gateway) with(f func(*Fleet, time.Duration)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Duration(float64(g.clock().Sub(g.start)) * g.speed)
	g.fleet.Advance(now)
	f(g.fleet, max(now, g.fleet.Now()))
}

// Speed is how many seconds of traffic time one second of the clock is.
func (g *Gateway) Speed() float64 { return g.speed }

// Play starts a trace now.
func (g *Gateway) Play(t trace.Trace) (err error) {
	g.with(func(f *Fleet, now time.Duration) { err = f.Play(t, now) })
	return err
}

// Add a server whose model is loaded after the given time on the clock.
func (g *Gateway) Add(id string, s Slice, load time.Duration) (err error) {
	g.with(func(f *Fleet, now time.Duration) {
		err = f.Add(id, s, now+time.Duration(float64(load)*g.speed))
	})
	return err
}

// Remove a server; its requests go to the others.
func (g *Gateway) Remove(id string) { g.with(func(f *Fleet, _ time.Duration) { f.Remove(id) }) }

// Counts of requests now.
func (g *Gateway) Counts() (c Counts) {
	g.with(func(f *Fleet, _ time.Duration) { c = f.Counts() })
	return c
}

// Wait is a quantile of the queue time so far, in traffic time.
func (g *Gateway) Wait(quantile float64) (d time.Duration, ok bool) {
	g.with(func(f *Fleet, _ time.Duration) { d, ok = f.Wait(quantile) })
	return d, ok
}

// Load of a server now, Busy in traffic time; false for an unknown id.
func (g *Gateway) Load(id string) (l Load, ok bool) {
	g.with(func(f *Fleet, _ time.Duration) { l, ok = f.Load(id) })
	return l, ok
}

// Handler serves the metrics of one server. A server that is gone or still
// loads its model answers 503, as a pod whose port is closed gives no metrics.
func (g *Gateway) Handler(id string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var families []*dto.MetricFamily
		var err error
		g.with(func(f *Fleet, now time.Duration) {
			if s := f.find(id); s != nil && s.ready <= now {
				families, err = s.metrics.Gather()
			}
		})
		if families == nil && err == nil {
			http.Error(w, "the model is not loaded", http.StatusServiceUnavailable)
			return
		}
		promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err }), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}
