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
	a.Taken = answer.Taken
	for i := range a.Allocations {
		dropOver(&a, i, known)
	}
	if w.users != nil {
		w.users.fill(r.Entities, &a, now, w.opts.Interval)
	}
	return a, unresolved
}

// dropOver removes ended pods from the allocations of an entity that another
// pod has too: some kubelets list a pod until it is deleted, and allocate its
// device to the next one before that.
func dropOver(a *collect.Attribution, i int, w *world) {
	if len(a.Allocations[i]) < 2 || !slices.ContainsFunc(a.Allocations[i], func(h collect.Allocation) bool { return !w.over(h) }) {
		return
	}
	var allocations []collect.Allocation
	var usages []collect.Usage
	for j, h := range a.Allocations[i] {
		if !w.over(h) {
			allocations, usages = append(allocations, h), append(usages, a.Usages[i][j])
		}
	}
	a.Allocations[i], a.Usages[i] = allocations, usages
}

// Metadata keeps a text for each of the node's pods, rendered once per answer
// of the API server. It is for one goroutine.
type Metadata struct {
	watcher *Watcher
	render  func(*Pod) string
	of      *world
	texts   map[collect.PodName]string
}

// Metadata returns the texts that render makes of pods. It needs Options.Labels.
func (w *Watcher) Metadata(render func(*Pod) string) *Metadata {
	return &Metadata{watcher: w, render: render}
}

// Texts are as of the API server's last answer; none before the first.
func (m *Metadata) Texts() map[collect.PodName]string {
	now := m.watcher.cluster.now.Load()
	if now == m.of {
		return m.texts
	}
	m.of, m.texts = now, make(map[collect.PodName]string, len(now.pods))
	for name, pod := range now.pods {
		m.texts[collect.PodName{Namespace: name.namespace, Name: name.name}] = m.render(pod)
	}
	return m.texts
}
