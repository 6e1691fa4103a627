package plan

import (
	"slices"
	"strings"
	"time"
)

// drainAgainAfter is the time from a failed drain of a node to the next.
const drainAgainAfter = time.Hour

// longestPause bounds the backoff of what keeps failing.
const longestPause = time.Hour

// failure returns the recorded failures of a name; the count is 0 for none.
func (w *world) failure(name string) Failure {
	if i, ok := w.failureIndex(name); ok {
		return w.state.Failures[i]
	}
	return Failure{Name: name}
}

func (w *world) failureIndex(name string) (int, bool) {
	return slices.BinarySearchFunc(w.state.Failures, name, func(f Failure, n string) int { return strings.Compare(f.Name, n) })
}

// fail records one more failure.
func (w *world) fail(name string) {
	i, ok := w.failureIndex(name)
	w.state.Failures = slices.Clone(w.state.Failures)
	if !ok {
		w.state.Failures = slices.Insert(w.state.Failures, i, Failure{Name: name})
	}
	w.state.Failures[i].Count = clampCount(w.state.Failures[i].Count) + 1
	w.state.Failures[i].At = w.now
}

// succeed removes the recorded failures.
func (w *world) succeed(name string) {
	if i, ok := w.failureIndex(name); ok {
		w.state.Failures = slices.Delete(slices.Clone(w.state.Failures), i, i+1)
	}
}

// failOperation counts the failure of a repartition, once for all reconciles until
// it is rolled back.
func (w *world) failOperation(n *nodeState, o *Operation) {
	name := gpuName(n.name, o.GPU)
	if f := w.failure(name); f.Count == 0 || f.At.Before(o.Started) {
		w.fail(name)
	}
}

// repartitionAgainAt is when a GPU whose repartition failed is tried again, zero for no
// failure: each failure doubles the pause.
func (w *world) repartitionAgainAt(n *nodeState, device int) time.Time {
	if len(w.state.Failures) == 0 {
		return time.Time{}
	}
	f := w.failure(gpuName(n.name, device))
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
