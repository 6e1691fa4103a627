package pods

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Attribute joins a reading with the newest usable answers: the kubelet's, the
// API server's and the driver's about processes. unresolved are devices that
// are allocated to containers and not in the reading.
func (w *Watcher) Attribute(r *collect.Reading, now time.Time) (a collect.Attribution, unresolved []string) {
	answer := w.Snapshot(now)
	if answer == nil {
		return collect.Attribution{Taken: w.Asked()}, nil
	}
	known := w.cluster.now.Load()
	a, unresolved = resolve(r.Entities, known.amend(answer.Claims), known.devices)
	a.Taken, a.Pods = answer.Taken, known.texts
	for i, list := range a.Allocations {
		// Some kubelets list a pod until it is deleted, and allocate its device to the next one
		// before that: what an ended pod shares with another one is not its own.
		if slices.ContainsFunc(list, func(h collect.Allocated) bool { return !known.over(h) }) {
			a.Allocations[i] = slices.DeleteFunc(list, known.over)
		}
	}
	if w.users != nil {
		w.users.fill(r.Entities, &a, now, w.opts.Interval)
	}
	return a, unresolved
}
