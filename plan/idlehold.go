package plan

import (
	"fmt"
	"time"
)

// holdIdle stops actions on idle nodes and pods while too much of the fleet
// became idle at about the same time: a large job may have ended, or the
// metrics may be wrong.
func (w *world) holdIdle() {
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
		w.idleHold = fmt.Sprintf("%d of %d nodes became idle within %s", idle, ours, short(w.policy.IdleHold))
	}
}

// looksIdleSince is since when nothing has computed on a node: nothing is
// allocated there, or nothing allocated is used; zero where something computes,
// and for unknown.
func (w *world) looksIdleSince(n *nodeState) time.Time {
	reason, since := w.emptiness(n)
	if reason == NodeEmpty {
		return since
	}
	var last time.Time
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if !device.AllocationKnown {
			return time.Time{}
		}
		if !device.MIG && len(device.AllocatedTo) > 0 {
			if device.UnusedSince.IsZero() {
				return time.Time{}
			}
			last = later(last, device.UnusedSince)
		}
		for j := range device.Instances {
			in := &device.Instances[j]
			if in.AllocatedTo == "" {
				continue
			}
			since := unusedSince(device, in)
			if since.IsZero() {
				return time.Time{}
			}
			last = later(last, since)
		}
	}
	return last
}
