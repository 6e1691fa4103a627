package model

import (
	"fmt"
	"sort"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// Fleet is the servers of one model and the gateway in front of them. It is
// not safe for concurrent use.
type Fleet struct {
	spec    Spec
	now     time.Duration
	servers []*server       // by id
	future  []trace.Request // not arrived yet, in order
	queued  []*request      // arrived while no server was ready
	waits   []time.Duration // queue time of each time a request was taken up
	counts  Counts
}

// Counts of requests since the start. Arrived is always
// Queued + Waiting + Running + Done.
type Counts struct {
	Left    int // of the trace, not arrived yet
	Arrived int
	Queued  int // at the gateway: no server is ready
	Waiting int // in servers' queues
	Running int
	Done    int
	Retried int // sent again because their server went
}

// NewFleet returns a fleet without servers at traffic time 0.
func NewFleet(spec Spec) *Fleet { return &Fleet{spec: spec} }

// Play adds a trace that starts at the given traffic time, which must not be
// before the fleet's own time nor before the end of an earlier trace.
func (f *Fleet) Play(t trace.Trace, at time.Duration) error {
	if at < f.now || len(f.future) > 0 && at < f.future[len(f.future)-1].At {
		return fmt.Errorf("trace %s cannot start at %s: it is %s or other traffic is under way", t.Name, at, f.now)
	}
	for _, r := range t.Requests {
		r.At += at
		f.future = append(f.future, r)
	}
	return nil
}

// Add a server that is ready, its model loaded, at the given traffic time. It
// is an error if the id is taken or the model does not fit into the slice.
func (f *Fleet) Add(id string, s Slice, ready time.Duration) error {
	if f.find(id) != nil {
		return fmt.Errorf("server %s: exists", id)
	}
	e, err := newEngine(f.spec, s)
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	f.servers = append(f.servers, newServer(id, e, max(ready, f.now)))
	sort.Slice(f.servers, func(i, j int) bool { return f.servers[i].id < f.servers[j].id })
	return nil
}

// Remove a server. What it had goes back to the others, from the beginning;
// no request is lost. An unknown id changes nothing.
func (f *Fleet) Remove(id string) {
	s := f.find(id)
	if s == nil {
		return
	}
	kept := make([]*server, 0, len(f.servers))
	for _, other := range f.servers {
		if other != s {
			kept = append(kept, other)
		}
	}
	f.servers = kept
	for _, r := range append(s.running, s.waiting...) {
		r.prefilled, r.generated = 0, 0
		f.counts.Retried++
		f.dispatch(r)
	}
}

// Advance moves traffic time forward; an earlier time changes nothing.
func (f *Fleet) Advance(to time.Duration) {
	for {
		at, happen := f.next()
		if happen == nil || at > to {
			break
		}
		f.now = max(f.now, at)
		happen()
	}
	f.now = max(f.now, to)
}

// next finds the earliest event: an arrival, the end of a step, or a
// server that is ready and has something to do.
func (f *Fleet) next() (at time.Duration, happen func()) {
	if len(f.future) > 0 {
		at, happen = f.future[0].At, f.arrive
	}
	for _, s := range f.servers {
		switch {
		case s.stepping:
			if happen == nil || s.until < at {
				at, happen = s.until, func() { f.counts.Done += s.end() }
			}
		case len(s.waiting) > 0 || len(s.running) > 0:
			if start := max(s.ready, f.now); happen == nil || start < at {
				at, happen = start, func() { s.begin(f.now, f.waited) }
			}
		case len(f.queued) > 0:
			if start := max(s.ready, f.now); happen == nil || start < at {
				at, happen = start, f.release
			}
		}
	}
	return at, happen
}

func (f *Fleet) waited(d time.Duration) { f.waits = append(f.waits, d) }

func (f *Fleet) arrive() {
	r := f.future[0]
	f.future = f.future[1:]
	f.counts.Arrived++
	f.dispatch(&request{Request: r, arrived: r.At})
}

// dispatch sends a request to the ready server with the fewest waiting, then
// the fewest running, requests; then by id.
func (f *Fleet) dispatch(r *request) {
	var best *server
	for _, s := range f.servers {
		if s.ready > f.now {
			continue
		}
		if best == nil || len(s.waiting) < len(best.waiting) ||
			len(s.waiting) == len(best.waiting) && len(s.running) < len(best.running) {
			best = s
		}
	}
	if best == nil {
		f.queued = append(f.queued, r)
		return
	}
	best.waiting = append(best.waiting, r)
}

func (f *Fleet) release() {
	queued := f.queued
	f.queued = nil
	for _, r := range queued {
		f.dispatch(r)
	}
}

func (f *Fleet) find(id string) *server {
	for _, s := range f.servers {
		if s.id == id {
			return s
		}
	}
	return nil
}

// Now is the fleet's traffic time.
func (f *Fleet) Now() time.Duration { return f.now }

// Counts of requests now.
func (f *Fleet) Counts() Counts {
	c := f.counts
	c.Left, c.Queued = len(f.future), len(f.queued)
	for _, s := range f.servers {
		c.Waiting += len(s.waiting)
		c.Running += len(s.running)
	}
	return c
}

// Wait is the given quantile (0 … 1) of the time requests spent in a queue
// before a server took them up, in traffic time, and false before the first.
func (f *Fleet) Wait(quantile float64) (time.Duration, bool) {
	if len(f.waits) == 0 || !(quantile >= 0 && quantile <= 1) {
		return 0, false
	}
	sorted := append([]time.Duration(nil), f.waits...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i] < sorted[j] })
	return sorted[min(len(sorted)-1, int(quantile*float64(len(sorted))))], true
}
