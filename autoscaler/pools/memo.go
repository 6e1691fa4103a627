package pools

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// memo caches the answers of List, failures included. After failures, calls become rarer: the
// provider may be throttling or slow to fail.
type memo struct {
	every time.Duration
	now   func() time.Time

	mu      sync.Mutex
	answers map[string]remembered
}

// maxRetry is the longest pause after a failure.
const maxRetry = time.Minute

type remembered struct {
	at         time.Time
	generation int64
	listing    Listing
	err        error
	failures   int // in a row
}

// fresh reports whether the answer can be used. After a failure the pause doubles, from two seconds
// on. A Problem with the target is read again at the normal interval, so that a fix is noticed.
func (r *remembered) fresh(generation int64, now time.Time, every time.Duration) bool {
	if p := (*Problem)(nil); r.err != nil && !errors.As(r.err, &p) {
		every = min(time.Second<<min(r.failures, 10), maxRetry)
	}
	return r.generation == generation && now.Sub(r.at) < every && !now.Before(r.at)
}

func newMemo(every time.Duration, now func() time.Time) *memo {
	return &memo{every: every, now: now, answers: map[string]remembered{}}
}

// get calls ask if the last answer is too old, or of another generation of the pool.
func (m *memo) get(ctx context.Context, pool *v1alpha1.GPUNodePool, ask func() (Listing, error)) (Listing, error) {
	m.mu.Lock()
	last, ok := m.answers[pool.Name]
	m.mu.Unlock()
	if ok && last.fresh(pool.Generation, m.now(), m.every) {
		return last.listing, last.err
	}
	l, err := ask()
	if ctx.Err() != nil {
		return l, err // the process is ending
	}
	next := remembered{at: m.now(), generation: pool.Generation, listing: l}
	if err != nil {
		next.listing, next.err, next.failures = Listing{}, err, 1
		if last.generation == pool.Generation {
			next.failures += last.failures
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[pool.Name] = next
	return next.listing, err
}

// forget drops the cached answer.
func (m *memo) forget(pool *v1alpha1.GPUNodePool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.answers[pool.Name]
	last.at = time.Time{}
	m.answers[pool.Name] = last
}

// resized records a size just written. The rest of the answer keeps its age.
func (m *memo) resized(pool *v1alpha1.GPUNodePool, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.answers[pool.Name]
	if !ok || last.err != nil || last.generation != pool.Generation {
		return // there is no answer to update
	}
	last.listing.Target = size
	m.answers[pool.Name] = last
}
