package pods

import "github.com/gpuscale/gpuscale/exporter/collect"

// Metadata keeps a text about each of the node's pods, made once for each answer
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
