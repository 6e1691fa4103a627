package plan

import (
	"fmt"
	"time"
)

// A pool's template is a promise. Where the nodes that come are not as it says (a
// label that nobody sets, a taint it does not know, less CPU once the node's own
// daemons have theirs), a pod that fits the template fits none of them, and would
// have another one bought in every reconcile.

// newNodeFor is how long a node counts as new.
const newNodeFor = time.Hour

// maxNewNodes bounds the nodes of one pool that are looked at; a few tell as much.
const maxNewNodes = 8

// noteNewNode remembers a node that has come lately, is in service and runs nothing.
func (w *world) noteNewNode(i int) {
	n := &w.nodes[i]
	if n.pool < 0 || n.tier != tierNow || n.bound > 0 || w.now.Sub(n.Created) > newNodeFor {
		return
	}
	if p := &w.pools[n.pool]; len(p.newNodes) < maxNewNodes {
		p.newNodes = append(p.newNodes, i)
	}
}

// templateMismatch says how a node that came while the kind waited, and that nobody uses,
// fails it though the pool's template would do; empty where none does.
func (w *world) templateMismatch(k *kind, p *poolState) string {
	since := k.pod.PendingSince
	if since.IsZero() {
		return ""
	}
	for _, i := range p.newNodes {
		n := &w.nodes[i]
		if n.promised > 0 || !n.Created.After(since) {
			continue
		}
		if why := w.nodeMismatch(k, n, p); why != "" {
			return fmt.Sprintf("%s does not match its pool's template: %s", n.name, why)
		}
	}
	return ""
}

// nodeMismatch says what of a node keeps the kind out that its GPUs' layout, health and
// holders have nothing to do with.
func (w *world) nodeMismatch(k *kind, n *nodeState, p *poolState) string {
	if !w.admits(k, n) {
		if t, out := untolerated(k.pod, n.Taints); out {
			return "taint " + t.Key + " is not tolerated"
		}
		return "labels do not match"
	}
	switch lack := w.lacks(k, &n.capacity); lack {
	case "", "slices":
		return ""
	case "gpus", partOfGPU:
		if have, claimed := len(n.GPUs), len(p.Template.GPUs); have < claimed {
			return fmt.Sprintf("%s, not %d", count(have, "GPU"), claimed)
		}
		return ""
	default:
		return "too few " + lack
	}
}
