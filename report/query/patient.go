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

// patient is a Prometheus that is asked again where it may answer a moment later, and
// whose silence to one question does not cost the answers to all others. A report is
// some thousand questions over minutes: one of them meets a restart, a proxy's limit
// or a block that takes too long to read.
type patient struct {
	Prometheus
	pause time.Duration

	mu   sync.Mutex
	lost int         // questions without any answer
	of   map[int]int // the same by the question's place in Answers.Asked
}

// Bounds of patience. Each lost question may have taken all the time that one may.
const (
	tries     = 3  // of one question; the pause doubles between them
	mostLost  = 20 // pieces of questions
	mostOfOne = 2  // pieces of one question, then the rest of it is not asked
)

// Query is that of Prometheus, asked again.
func (p *patient) Query(ctx context.Context, promql string, at time.Time) (v prom.Vector, err error) {
	err = p.again(ctx, func() error {
		v, err = p.Prometheus.Query(ctx, promql, at)
		return err
	})
	return v, err
}

// Range is that of Prometheus, asked again.
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

// passing says whether the same question may be answered a moment later. One that took
// all the time there is would take it again, and who is not let in stays outside.
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

// late says whether a question took longer than it may, by our clock or the server's.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timed out") || strings.Contains(err.Error(), "timeout")
}

// lose is told of a piece of a question that found no answer. The error is for what
// ends the report: Prometheus does not even answer the simplest question, or too many
// were lost.
func (p *patient) lose(ctx context.Context, ask int, at time.Time, err error) error {
	p.mu.Lock()
	p.lost++
	p.of[ask]++
	lost := p.lost
	p.mu.Unlock()
	if lost > mostLost {
		return fmt.Errorf("%d questions went without an answer: %w", lost, err)
	}
	if _, simplest := p.Query(ctx, "vector(1)", at); errors.Is(simplest, prom.ErrUnavailable) {
		return err
	}
	return nil
}

// hopeless says whether so many pieces of a question were lost that the others are
// not worth their time.
func (p *patient) hopeless(ask int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[ask] >= mostOfOne
}
