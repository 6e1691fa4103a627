package pools

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// memo keeps what List said for a while, failures too: who fails because he is asked
// too much, or takes long to fail, is asked ever less.
type memo struct {
	every time.Duration
	now   func() time.Time

	mu   sync.Mutex
	said map[string]remembered
}

// maxSilence is the longest that a provider that fails is left alone.
const maxSilence = time.Minute

type remembered struct {
	at         time.Time
	generation int64
	listing    Listing
	err        error
	failures   int // in a row
}

// fresh reports whether it need not be asked again. After a failure the wait doubles,
// from two seconds on; what only a change of the target mends is asked as often as what
// is well, so that it is seen to be mended.
func (r *remembered) fresh(generation int64, now time.Time, every time.Duration) bool {
	if p := (*Problem)(nil); r.err != nil && !errors.As(r.err, &p) {
		every = min(time.Second<<min(r.failures, 10), maxSilence)
	}
	return r.generation == generation && now.Sub(r.at) < every && !now.Before(r.at)
}

func newMemo(every time.Duration, now func() time.Time) *memo {
	return &memo{every: every, now: now, said: map[string]remembered{}}
}

// get asks where the last answer is too old, or was about another spec of the pool.
func (m *memo) get(ctx context.Context, pool *v1alpha1.GPUNodePool, ask func() (Listing, error)) (Listing, error) {
	m.mu.Lock()
	last, ok := m.said[pool.Name]
	m.mu.Unlock()
	if ok && last.fresh(pool.Generation, m.now(), m.every) {
		return last.listing, last.err
	}
	l, err := ask()
	if ctx.Err() != nil {
		return l, err // we are ending
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
	m.said[pool.Name] = next
	return next.listing, err
}

// forget makes the next answer a new one.
func (m *memo) forget(pool *v1alpha1.GPUNodePool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.said[pool.Name]
	last.at = time.Time{}
	m.said[pool.Name] = last
}

// resized takes up what was just written. The rest of the answer stays as old as it is.
func (m *memo) resized(pool *v1alpha1.GPUNodePool, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.said[pool.Name]
	if !ok || last.err != nil || last.generation != pool.Generation {
		return // there is nothing that it would be part of
	}
	last.listing.Target = size
	m.said[pool.Name] = last
}
