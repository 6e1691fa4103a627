package observe

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// tracker remembers since when things have been free, across rounds.
type tracker struct {
	// gap is how long something may go unknown and still count as free all the
	// while. Longer, and it may have been held in between.
	gap  time.Duration
	seen map[idleKey]idleEntry
}

// idleKey names a card, or an instance at its place on a card.
type idleKey struct {
	node, card string // UUID of the card, empty where nobody said
	index      int
	isInstance bool
	instance   string // UUID, as the card's
	place      mig.Placement
}

type idleEntry struct{ since, last time.Time }

func newTracker(gap time.Duration) *tracker {
	return &tracker{gap: gap, seen: map[idleKey]idleEntry{}}
}

// free notes that key is free at now and returns since when; what is first seen
// free is free since now.
func (t *tracker) free(key idleKey, now time.Time) time.Time {
	e, ok := t.seen[key]
	if !ok || now.Sub(e.last) > t.gap || now.Before(e.since) {
		e.since = now
	}
	e.last = now
	t.seen[key] = e
	return e.since
}

// held notes that key is held.
func (t *tracker) held(key idleKey) { delete(t.seen, key) }

// sweep forgets what has not been seen free for too long to matter.
func (t *tracker) sweep(now time.Time) {
	for key, e := range t.seen {
		if now.Sub(e.last) > t.gap {
			delete(t.seen, key)
		}
	}
}
