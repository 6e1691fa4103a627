package plan

import (
	"slices"
	"strings"
	"time"
)

// drainAgainAfter is how long a node is left alone whose drain was given up.
const drainAgainAfter = time.Hour

// longestPause bounds the time between two tries of something that keeps failing.
const longestPause = time.Hour

// failure is what is remembered of the failures under a name; its count is 0 for
// none.
func (w *world) failure(name string) Failure {
	if i, ok := w.failureIndex(name); ok {
		return w.memory.Failures[i]
	}
	return Failure{Name: name}
}

func (w *world) failureIndex(name string) (int, bool) {
	return slices.BinarySearchFunc(w.memory.Failures, name, func(f Failure, n string) int { return strings.Compare(f.Name, n) })
}

// fail remembers one more failure.
func (w *world) fail(name string) {
	i, ok := w.failureIndex(name)
	w.memory.Failures = slices.Clone(w.memory.Failures)
	if !ok {
		w.memory.Failures = slices.Insert(w.memory.Failures, i, Failure{Name: name})
	}
	w.memory.Failures[i].Count = clampCount(w.memory.Failures[i].Count) + 1
	w.memory.Failures[i].At = w.now
}

// succeed forgets what failed before.
func (w *world) succeed(name string) {
	if i, ok := w.failureIndex(name); ok {
		w.memory.Failures = slices.Delete(slices.Clone(w.memory.Failures), i, i+1)
	}
}

// failOperation counts the failure of a repartition, once however often it is
// seen before it has been undone.
func (w *world) failOperation(n *nodeState, o *Operation) {
	name := cardName(n.name, o.Card)
	if f := w.failure(name); f.Count == 0 || f.At.Before(o.Started) {
		w.fail(name)
	}
}

// cutAgainAt is when a card whose repartition failed is tried again, zero where
// none did: each failure doubles the pause.
func (w *world) cutAgainAt(n *nodeState, card int) time.Time {
	if len(w.memory.Failures) == 0 {
		return time.Time{}
	}
	f := w.failure(cardName(n.name, card))
	if f.Count <= 0 {
		return time.Time{}
	}
	return f.At.Add(w.pauseAfter(f.Count))
}

func (w *world) pauseAfter(failures int) time.Duration {
	pause := w.policy.RepartitionCooldown
	for range min(failures, 62) {
		if pause >= longestPause/2 {
			return longestPause
		}
		pause *= 2
	}
	return pause
}
