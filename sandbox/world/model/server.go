package model

import (
	"time"

	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// request is one request.
type request struct {
	trace.Request
	arrived time.Duration // traffic time

	prefilled int           // prompt tokens done
	generated int           // answer tokens done
	running   time.Duration // when it last left the queue
}

func (r *request) tokens() int { return r.Context + r.Generated }

// server is one vLLM engine. It works in steps; between steps only its queue changes.
type server struct {
	id      string
	engine  engine
	ready   time.Duration // traffic time at which the model is loaded
	waiting []*request
	running []*request
	kv      int // tokens reserved by running requests

	stepping bool
	from     time.Duration // start of the current step
	until    time.Duration
	chunks   []int // prompt tokens in this step by running request; 0 means decoding

	busy    time.Duration // time of all finished steps
	metrics metrics
}

func newServer(id string, e engine, ready time.Duration) *server {
	s := &server{id: id, engine: e, ready: ready}
	s.metrics = newMetrics(e.spec.Name, s)
	return s
}

// begin starts a step at now if there is anything to do. It calls wait with the queue time of every request
// that leaves the queue.
func (s *server) begin(now time.Duration, wait func(time.Duration)) {
	s.admit(now, wait)
	s.stepping = len(s.running) > 0
	if !s.stepping {
		return
	}
	s.chunks = s.chunks[:0]
	decoding, prompt := 0, 0
	for _, r := range s.running {
		if r.prefilled == r.Context {
			decoding++
		}
	}
	budget := max(1, s.engine.spec.StepTokens-decoding)
	for _, r := range s.running {
		chunk := min(r.Context-r.prefilled, budget-prompt)
		prompt += chunk
		s.chunks = append(s.chunks, chunk)
	}
	s.from, s.until = now, now+s.engine.duration(decoding, prompt)
}

// admit takes requests from the queue while they fit. It reserves the KV cache for prompt and answer at once;
// the real vLLM grows it and preempts requests. A request that is larger than the whole cache runs alone.
func (s *server) admit(now time.Duration, wait func(time.Duration)) {
	for len(s.waiting) > 0 && len(s.running) < s.engine.spec.MaxSeqs {
		r := s.waiting[0]
		if len(s.running) > 0 && s.kv+r.tokens() > s.engine.kvTokens {
			return
		}
		s.waiting = s.waiting[1:]
		r.running = now
		wait(now - r.arrived)
		s.kv += r.tokens()
		s.running = append(s.running, r)
	}
}

// end completes the step that ends now, and returns how many requests it finished.
func (s *server) end() (done int) {
	now := s.until
	s.busy += s.until - s.from
	s.stepping = false
	kept := s.running[:0]
	for i, r := range s.running {
		s.advance(r, s.chunks[i], now)
		if r.generated < r.Generated {
			kept = append(kept, r)
			continue
		}
		done++
		s.kv -= r.tokens()
		s.metrics.endToEnd.Observe((now - r.arrived).Seconds())
		s.metrics.queueTime.Observe((r.running - r.arrived).Seconds())
	}
	clear(s.running[len(kept):])
	s.running = kept
	return done
}

func (s *server) advance(r *request, chunk int, now time.Duration) {
	if r.prefilled < r.Context {
		r.prefilled += chunk
		if r.prefilled < r.Context {
			return
		}
		s.metrics.prompted.Add(float64(r.Context))
		s.metrics.firstToken.Observe((now - r.arrived).Seconds())
	}
	r.generated++
	s.metrics.generated.Inc()
}

// usage of the KV cache, 0 … 1.
func (s *server) usage() float64 {
	return min(1, float64(s.kv)/float64(s.engine.kvTokens))
}
