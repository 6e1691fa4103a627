package plan

import (
	"slices"
	"strconv"
)

// classify groups nodes that are equal to selectors and tolerations: the same
// taints, and the same values of the labels that pending pods mention. Nodes
// that differ in other labels only are one class.
func (w *world) classify() {
	keys := w.requestedLabels()
	ids := map[string]int{}
	var b []byte
	class := func(labels map[string]string, taints []Taint) int {
		b = b[:0]
		for _, k := range keys {
			if v, ok := labels[k]; ok {
				b = strconv.AppendQuote(b, v)
			}
			b = append(b, ',')
		}
		for _, t := range taints {
			b = strconv.AppendQuote(b, t.Key)
			b = strconv.AppendQuote(b, t.Value)
			b = strconv.AppendQuote(b, t.Effect)
		}
		id, ok := ids[string(b)]
		if !ok {
			id = len(ids)
			ids[string(b)] = id
		}
		return id
	}
	for i := range w.nodes {
		w.nodes[i].class = class(w.labelsAndTaints(&w.nodes[i]))
	}
	for i := range w.pools {
		t := &w.pools[i].Template
		w.pools[i].class = class(t.Labels, t.Taints)
	}
	w.classes = len(ids)
	for i := range w.kinds {
		w.kinds[i].static = make([]verdictOnce, w.classes)
	}
}

// requestedLabels lists the labels that any kind's selector or affinity
// mentions.
func (w *world) requestedLabels() []string {
	var keys []string
	for i := range w.kinds {
		p := w.kinds[i].pod
		keys = append(keys, sortedKeys(p.NodeSelector)...)
		for _, term := range p.Affinity {
			for _, r := range term {
				keys = append(keys, r.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// admits reports whether selectors and taints let the kind onto a node.
func (w *world) admits(k *kind, n *nodeState) bool {
	if k.static == nil { // a kind added after nodes were classified
		labels, taints := w.labelsAndTaints(n)
		_, out := untolerated(k.pod, taints)
		return !out && fitsLabels(k.pod, labels)
	}
	if k.static[n.class] == 0 {
		labels, taints := w.labelsAndTaints(n)
		k.judge(n.class, labels, taints)
	}
	return k.static[n.class] == fits
}

// admitsTainted reports whether selectors let the kind onto a node, taints apart.
func (w *world) admitsTainted(k *kind, n *nodeState) bool {
	if k.static == nil {
		labels, _ := w.labelsAndTaints(n)
		return fitsLabels(k.pod, labels)
	}
	return w.admits(k, n) || k.static[n.class] == fitsUntainted
}

// admitsNew reports whether selectors and taints let the kind onto a new node
// of a pool.
func (k *kind) admitsNew(p *poolState) bool {
	if k.static == nil {
		_, out := untolerated(k.pod, p.Template.Taints)
		return !out && fitsLabels(k.pod, p.Template.Labels)
	}
	if k.static[p.class] == 0 {
		k.judge(p.class, p.Template.Labels, p.Template.Taints)
	}
	return k.static[p.class] == fits
}

func (k *kind) judge(class int, labels map[string]string, taints []Taint) {
	_, out := untolerated(k.pod, taints)
	switch {
	case !fitsLabels(k.pod, labels):
		k.static[class] = fitsNot
	case out:
		k.static[class] = fitsUntainted
	default:
		k.static[class] = fits
	}
}

// labelsAndTaints are those of a node once it is ready. An upcoming node has its
// pool's template's: start-up taints are removed, and the device plugin and GFD add
// their labels.
func (w *world) labelsAndTaints(n *nodeState) (map[string]string, []Taint) {
	if !n.virtual && n.tier != tierNode {
		return n.Labels, n.Taints
	}
	template := &w.pools[n.pool].Template
	if n.virtual {
		return template.Labels, template.Taints
	}
	labels := make(map[string]string, len(n.Labels)+len(template.Labels))
	for k, v := range template.Labels {
		labels[k] = v
	}
	for k, v := range n.Labels {
		labels[k] = v
	}
	return labels, template.Taints
}
