package crashstory

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// watches are the streams open through a proxy.
type watches struct {
	mu     sync.Mutex
	turn   *sync.Cond
	frozen map[string]bool // by resource
	gone   map[string]bool // resources whose next watch gets 410
	open   map[*stream]bool
}

func newWatches() *watches {
	w := &watches{frozen: map[string]bool{}, gone: map[string]bool{}, open: map[*stream]bool{}}
	w.turn = sync.NewCond(&w.mu)
	return w
}

// Freeze withholds the events of a resource from the replica, as a lagging cache
// does.
func (p *Proxy) Freeze(resource string) {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	p.watches.frozen[resource] = true
}

// Lose ends the streams of a resource and drops their frozen events. The next
// watch gets 410 Gone and has to list again: it never sees the events of what was
// deleted meanwhile.
func (p *Proxy) Lose(resource string) {
	w := p.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.frozen, resource)
	for s := range w.open {
		if s.resource == resource {
			w.gone[resource] = true
			s.end()
		}
	}
	w.turn.Broadcast()
}

// Interrupt ends every stream, as a load balancer does.
func (p *Proxy) Interrupt() { p.watches.interrupt() }

func (w *watches) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.open {
		s.end()
	}
	w.turn.Broadcast()
}

// serve passes one stream on.
func (w *watches) serve(rw http.ResponseWriter, r *http.Request, resource string, next http.Handler) {
	w.mu.Lock()
	if w.gone[resource] && r.URL.Query().Get("sendInitialEvents") != "true" {
		delete(w.gone, resource)
		w.mu.Unlock()
		refuse(rw, http.StatusGone, "Expired", "too old resource version")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	s := &stream{ResponseWriter: rw, watches: w, resource: resource, ctx: ctx, cancel: cancel}
	w.open[s] = true
	w.mu.Unlock()
	// A replica that is killed in a frozen stream must not leave it waiting.
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.turn.Broadcast()
	})
	defer func() {
		stop()
		cancel()
		w.mu.Lock()
		delete(w.open, s)
		w.mu.Unlock()
	}()
	next.ServeHTTP(s, r.WithContext(ctx))
}

// stream is one watch.
type stream struct {
	http.ResponseWriter
	watches  *watches
	resource string
	ctx      context.Context
	cancel   context.CancelFunc
}

func (s *stream) end() { s.cancel() }

var errInterrupted = errors.New("the stream was interrupted")

// Write implements http.ResponseWriter.
func (s *stream) Write(b []byte) (int, error) {
	s.watches.mu.Lock()
	for s.watches.frozen[s.resource] && s.ctx.Err() == nil {
		s.watches.turn.Wait()
	}
	s.watches.mu.Unlock()
	if s.ctx.Err() != nil {
		return 0, errInterrupted
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets an http.ResponseController flush.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
