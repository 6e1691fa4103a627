package plan

import (
	"fmt"
	"time"
)

// A pool's template may not match its nodes: a label that no controller sets, a
// taint that the template lacks, less CPU once the node's DaemonSets run. A pod
// that fits only the template would otherwise add a node in every reconcile.

// newNodeFor is how long a node counts as new.
const newNodeFor = time.Hour

// maxNewNodes bounds the nodes of one pool that are compared with its template.
const maxNewNodes = 8

// noteNewNode records a node that is new, in service, and runs no pod.
func (w *world) noteNewNode(i int) {
	n := &w.nodes[i]
	if n.pool < 0 || n.tier != tierNow || n.bound > 0 || w.now.Sub(n.Created) > newNodeFor {
		return
	}
	if p := &w.pools[n.pool]; len(p.newNodes) < maxNewNodes {
		p.newNodes = append(p.newNodes, i)
	}
}

// templateMismatch returns how a node, new since the kind is pending and unused,
// does not fit the kind though the pool's template does; empty where none is
// such.
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

// nodeMismatch returns what keeps the kind out of a node, apart from the layout,
// health and allocation of its GPUs.
func (w *world) nodeMismatch(k *kind, n *nodeState, p *poolState) string {
	if !w.admits(k, n) {
		return mismatch(k.pod, n.Labels, n.Taints)
	}
	switch lack := w.lacks(k, &n.capacity); lack {
	case "", "slices":
		return ""
	case wholeGPUs, partOfGPU:
		if have, claimed := len(n.GPUs), len(p.Template.GPUs); have < claimed {
			return fmt.Sprintf("%s, not %d", count(have, "GPU"), claimed)
		}
		return ""
	default:
		return lackText(lack, "too few ")
	}
}
