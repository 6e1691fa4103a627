package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// patient retries queries that fail for a moment, and lets a query without an answer
// fail alone. A report is some thousand queries over minutes: some meet a restart, a
// proxy's limit or a block that takes too long to read.
type patient struct {
	Prometheus
	pause time.Duration

	mu   sync.Mutex
	lost int         // queries without any answer
	of   map[int]int // the same by the query's place in Answers.Asked
}

// Bounds of retries. Each lost query may have taken the whole time-out.
const (
	tries     = 3  // of one query, with exponential backoff
	mostLost  = 20 // pieces of queries
	mostOfOne = 2  // pieces of one query; then the rest of it is not sent
)

// Query is that of Prometheus, with retries.
func (p *patient) Query(ctx context.Context, promql string, at time.Time) (v prom.Vector, err error) {
	err = p.again(ctx, func() error {
		v, err = p.Prometheus.Query(ctx, promql, at)
		return err
	})
	return v, err
}

// Range is that of Prometheus, with retries.
func (p *patient) Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) (lines []prom.Line, err error) {
	err = p.again(ctx, func() error {
		lines, err = p.Prometheus.Range(ctx, promql, from, to, step)
		return err
	})
	return lines, err
}

func (p *patient) again(ctx context.Context, ask func() error) error {
	pause := p.pause
	for n := 1; ; n++ {
		err := ask()
		if n == tries || !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// passing reports whether a retry may succeed. A query that timed out does so again, and
// a refused credential stays refused.
func passing(err error) bool {
	if !errors.Is(err, prom.ErrUnavailable) || late(err) {
		return false
	}
	text := err.Error()
	for _, status := range []string{"HTTP 429", "HTTP 502", "HTTP 503", "EOF", "connection reset"} {
		if strings.Contains(text, status) {
			return true
		}
	}
	return false
}

// late reports whether a query timed out, here or at the server.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timed out") || strings.Contains(err.Error(), "timeout")
}

// lose records a piece of a query without an answer. Its error ends the report:
// Prometheus does not answer the simplest query, or too many were lost.
func (p *patient) lose(ctx context.Context, ask int, at time.Time, err error) error {
	p.mu.Lock()
	p.lost++
	p.of[ask]++
	lost := p.lost
	p.mu.Unlock()
	if lost > mostLost {
		return fmt.Errorf("%d queries had no answer: %w", lost, err)
	}
	if _, simplest := p.Query(ctx, "vector(1)", at); errors.Is(simplest, prom.ErrUnavailable) {
		return err
	}
	return nil
}

// hopeless reports whether so many pieces of a query were lost that the rest is not sent.
func (p *patient) hopeless(ask int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[ask] >= mostOfOne
}
