package plan

import "strings"

// dataFirst is more than any node's free capacity.
const dataFirst = 1 << 40

// cached returns which of the datasets that the kind reads a node with these labels has.
func (k *kind) cached(labels map[string]string) []string {
	var out []string
	for _, key := range k.pod.Data {
		if labels[key] == "true" {
			out = append(out, key)
		}
	}
	return out
}

// rank orders the nodes that can serve a kind equally soon: those with more of its
// datasets first, then those with the least free capacity.
func (w *world) rank(k *kind, n *nodeState) int {
	if len(k.pod.Data) == 0 {
		return n.spare()
	}
	labels, _ := w.labelsAndTaints(n)
	return n.spare() - dataFirst*len(k.cached(labels))
}

// dataText is ", which has dataset.gpuscale.io/a", empty for a node without data of
// the kind.
func (w *world) dataText(k *kind, n *nodeState) string {
	if len(k.pod.Data) == 0 {
		return ""
	}
	labels, _ := w.labelsAndTaints(n)
	if all := k.cached(labels); len(all) > 0 {
		return ", which has " + strings.Join(all, ", ")
	}
	return ""
}
