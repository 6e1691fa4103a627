package plan

import (
	"fmt"
	"time"
)

// doubtIdle holds back what is done because of idleness when too much of the
// fleet has come to look idle at about the same time: a job that large may have
// ended, or whoever reports may have. Either shows within the time that is waited.
func (w *world) doubtIdle() {
	ours, idle := 0, 0
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || n.tier != tierNow {
			continue
		}
		ours++
		if since := w.looksIdleSince(n); !since.IsZero() && w.now.Sub(since) < w.policy.IdleHold {
			idle++
		}
	}
	if idle > max(w.policy.OKIdle, 0) && float64(idle) > w.policy.MaxIdleAtOnce*float64(ours) {
		w.doubt = fmt.Sprintf("%d of %d nodes have come to look idle within %s", idle, ours, short(w.policy.IdleHold))
	}
}

// looksIdleSince is since when nothing has computed on a node: nobody holds
// anything there, or nobody uses what is held. Zero where somebody does, or where
// it is not known.
func (w *world) looksIdleSince(n *nodeState) time.Time {
	reason, since := w.emptiness(n)
	if reason == NodeEmpty {
		return since
	}
	var last time.Time
	for c := range n.Cards {
		card := &n.Cards[c]
		if !card.HoldersKnown {
			return time.Time{}
		}
		if !card.MIG && len(card.Holders) > 0 {
			if card.UnusedSince.IsZero() {
				return time.Time{}
			}
			last = later(last, card.UnusedSince)
		}
		for j := range card.Instances {
			in := &card.Instances[j]
			if in.Holder == "" {
				continue
			}
			since := unusedSince(card, in)
			if since.IsZero() {
				return time.Time{}
			}
			last = later(last, since)
		}
	}
	return last
}
