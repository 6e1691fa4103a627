package pods

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Attribute joins a reading with the newest usable answers: the kubelet's, the
// API server's and the driver's about processes. unresolved are the devices
// that containers hold and the reading does not have.
func (w *Watcher) Attribute(r *collect.Reading, now time.Time) (a collect.Attribution, unresolved []string) {
	answer := w.Snapshot(now)
	if answer == nil {
		return collect.Attribution{Taken: w.Asked()}, nil
	}
	known := w.cluster.now.Load()
	a, unresolved = resolve(r.Entities, known.amend(answer.Claims), known.devices)
	a.Taken = answer.Taken
	for i := range a.Holders {
		dropOver(&a, i, known)
	}
	if w.users != nil {
		w.users.fill(r.Entities, &a, now, w.opts.Interval)
	}
	return a, unresolved
}

// dropOver takes pods that have ended from the holders of an entity that
// another pod holds too: some kubelets list a pod until it is deleted, and its
// device goes to the next one before that.
func dropOver(a *collect.Attribution, i int, w *world) {
	if len(a.Holders[i]) < 2 || !slices.ContainsFunc(a.Holders[i], func(h collect.Holder) bool { return !w.over(h) }) {
		return
	}
	var holders []collect.Holder
	var holds []collect.Hold
	for j, h := range a.Holders[i] {
		if !w.over(h) {
			holders, holds = append(holders, h), append(holds, a.Holds[i][j])
		}
	}
	a.Holders[i], a.Holds[i] = holders, holds
}

// Pod returns what the API server said of a pod of this node; false where it
// was not asked or does not know it.
func (w *Watcher) Pod(namespace, name string) (Pod, bool) {
	p, ok := w.cluster.now.Load().pods[podName{namespace, name}]
	if !ok {
		return Pod{}, false
	}
	return *p, true
}
