package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// giveBack removes nodes that have been empty for long enough and that no
// pending pod will use, the longest empty first, never below the minimum.
func (w *world) giveBack() {
	left := w.policy.MaxRemovalsPerRound
	for i := range w.pools {
		p := &w.pools[i]
		candidates := w.removable(i)
		for _, c := range candidates {
			if w.keepsPool(p) != "" || left <= 0 || !w.may(i) {
				break
			}
			left--
			p.shrunk++
			n := &w.nodes[c.node]
			w.actions = append(w.actions, Action{Verb: RemoveNode, Pool: p.Name, Node: n.name, Reason: NodeEmpty,
				Detail: fmt.Sprintf("empty for %s, %s were asked; saves %.2f an hour",
					short(w.now.Sub(c.since)), short(p.IdleAfter), p.price())})
			n.action = len(w.actions) - 1
		}
		if p.shrunk > 0 {
			w.memory.LastScaleDown = stamped(w.memory.LastScaleDown, p.Name, w.now)
		}
	}
}

type removal struct {
	node  int
	since time.Time
}

// removable lists the pool's nodes that may go, the longest empty first.
func (w *world) removable(pool int) []removal {
	var out []removal
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.pool != pool || n.virtual {
			continue
		}
		reason, since := w.emptiness(n)
		if reason == NodeEmpty && w.now.Sub(since) >= w.pools[pool].IdleAfter {
			out = append(out, removal{i, since})
		}
	}
	slices.SortStableFunc(out, func(a, b removal) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.node, b.node))
	})
	return out
}

// emptiness says whether a node that works is empty, and since when.
func (w *world) emptiness(n *nodeState) (Reason, time.Time) {
	switch {
	case n.tier != tierNow:
		return n.since, time.Time{}
	case n.bound > 0 || n.NoScaleDown:
		return NodeBusy, time.Time{}
	case n.promised > 0:
		return NodeNeeded, time.Time{}
	}
	var latest time.Time
	for c := range n.Cards {
		if !n.Cards[c].HoldersKnown {
			return HoldersUnknown, time.Time{}
		}
		free, since := cardFree(&n.Cards[c])
		if !free {
			return NodeBusy, time.Time{}
		}
		latest = later(latest, since)
	}
	if at, ok := stampAt(w.memory.FreeSince, n.name); ok {
		latest = later(latest, at)
	}
	return NodeEmpty, latest
}

// keepsPool says what keeps a pool from giving a node back, empty for nothing.
func (w *world) keepsPool(p *poolState) Reason {
	up, upOK := stampAt(w.memory.LastScaleUp, p.Name)
	down, downOK := stampAt(w.memory.LastScaleDown, p.Name)
	switch {
	case w.hold != "":
		return w.hold
	case p.Freeze:
		return Frozen
	case min(p.Target, p.Size)-p.shrunk <= p.Min:
		return AtMin
	case p.grown > 0, upOK && w.now.Sub(up) < w.policy.ScaleDownCooldown, downOK && w.now.Sub(down) < w.policy.ScaleDownCooldown:
		return CoolingDown
	}
	return ""
}
