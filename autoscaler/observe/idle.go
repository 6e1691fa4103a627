package observe

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// tracker remembers across reconciles since when GPUs and instances have been free.
type tracker struct {
	// gap is how long a device may be unknown and still count as free throughout. After a longer
	// gap it may have been allocated in between.
	gap  time.Duration
	seen map[idleKey]idleEntry
}

// idleKey identifies a GPU, or an instance at its placement on a GPU.
type idleKey struct {
	node, device string // UUID of the GPU, empty if unknown
	index        int
	isInstance   bool
	instance     string // UUID, empty if unknown
	place        mig.Placement
}

type idleEntry struct{ since, last time.Time }

func newTracker(gap time.Duration) *tracker {
	return &tracker{gap: gap, seen: map[idleKey]idleEntry{}}
}

// free records that key is free at now and returns since when; a key first seen free is free since
// now.
func (t *tracker) free(key idleKey, now time.Time) time.Time {
	e, ok := t.seen[key]
	if !ok || now.Sub(e.last) > t.gap || now.Before(e.since) {
		e.since = now
	}
	e.last = now
	t.seen[key] = e
	return e.since
}

// allocated records that key is allocated.
func (t *tracker) allocated(key idleKey) { delete(t.seen, key) }

// sweep drops entries that have not been seen free for longer than gap.
func (t *tracker) sweep(now time.Time) {
	for key, e := range t.seen {
		if now.Sub(e.last) > t.gap {
			delete(t.seen, key)
		}
	}
}
