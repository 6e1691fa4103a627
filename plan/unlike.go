package plan

import (
	"fmt"
	"time"
)

// A pool's template is a promise. Where the nodes that come are not as it says (a
// label that nobody sets, a taint it does not know, less CPU once the node's own
// daemons have theirs), a pod that fits the template fits none of them, and would
// have another one bought in every round.

// newcomerFor is how long a node counts as new.
const newcomerFor = time.Hour

// maxNewcomers bounds the nodes of one pool that are looked at; a few tell as much.
const maxNewcomers = 8

// noteNewcomer remembers a node that has come lately, is in service and runs nothing.
func (w *world) noteNewcomer(i int) {
	n := &w.nodes[i]
	if n.pool < 0 || n.tier != tierNow || n.bound > 0 || w.now.Sub(n.Created) > newcomerFor {
		return
	}
	if p := &w.pools[n.pool]; len(p.newcomers) < maxNewcomers {
		p.newcomers = append(p.newcomers, i)
	}
}

// unlike says how a node that came while the kind waited, and that nobody uses,
// fails it though the pool's template would do; empty where none does.
func (w *world) unlike(k *kind, p *poolState) string {
	since := k.pod.PendingSince
	if since.IsZero() {
		return ""
	}
	for _, i := range p.newcomers {
		n := &w.nodes[i]
		if n.promised > 0 || !n.Created.After(since) {
			continue
		}
		if why := w.failing(k, n, p); why != "" {
			return fmt.Sprintf("%s has come and is not as its template says: %s", n.name, why)
		}
	}
	return ""
}

// failing says what of a node keeps the kind out that its cards' layout, health and
// holders have nothing to do with.
func (w *world) failing(k *kind, n *nodeState, p *poolState) string {
	if !w.admits(k, n) {
		if t, out := untolerated(k.pod, n.Taints); out {
			return "taint " + t.Key + " is not tolerated"
		}
		return "labels do not match"
	}
	switch lack := w.lacks(k, &n.room); lack {
	case "", "slices":
		return ""
	case "cards", partOfCard:
		if have, said := len(n.Cards), len(p.Template.Cards); have < said {
			return fmt.Sprintf("%s, not %d", count(have, "card"), said)
		}
		return ""
	default:
		return "too few " + lack
	}
}
