package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// splitCard tells what of a card must stay from what may go, and from when on.
func (w *world) splitCard(n *nodeState, card int, patient bool, o *option) (mig.Layout, blocker) {
	c := &n.cards()[card]
	switch {
	case c.Health == gpu.Sick:
		return nil, blockSick
	case n.cut[card] || n.operating() && n.Operation.Card == c.Index:
		return nil, blockCut
	case !c.HoldersKnown && n.tier != tierNode:
		// No action, but a reason to wait: by the API it may well be free.
		at, waits := w.awaited(n)
		if !waits || len(c.Instances) == 0 {
			return nil, blockUnknown
		}
		o.at, o.unknown = later(o.at, at), true
	}
	rules := &w.pools[n.pool].MIG
	if !rules.KeepsBusy && slices.ContainsFunc(c.Instances, func(in Instance) bool { return in.Holder != "" }) {
		return nil, blockHeld
	}
	var keep, spare []mig.Placement
	unplaced := false
	for i := range c.Instances {
		in := &c.Instances[i]
		unplaced = unplaced || !in.Placed
		idle, known := w.idleSince(n, card, in)
		ready := idle.Add(rules.IdleAfter)
		switch {
		case in.Holder != "":
			keep = append(keep, in.Placement)
		case !known && rules.IdleAfter > 0 && patient:
			return nil, blockIdle
		case !patient && rules.IdleAfter > 0 && (!known || ready.After(w.now)):
			keep = append(keep, in.Placement)
		default:
			if rules.IdleAfter > 0 {
				o.at = later(o.at, ready)
			}
			spare = append(spare, in.Placement)
		}
	}
	o.cut.before, o.cut.keep = layoutOf(c), mig.NewLayout(keep...)
	if unplaced && len(keep) > 0 {
		return nil, blockHeld // where the held ones lie is not known
	}
	return mig.NewLayout(spare...), blockNone
}

// idleSince is when an instance was last released, as far as anyone knows.
func (w *world) idleSince(n *nodeState, card int, in *Instance) (time.Time, bool) {
	c := &n.cards()[card]
	switch {
	case n.tier == tierNode: // it comes without pods
		return n.at, true
	case !c.HoldersKnown: // not before that is known
		return w.now, true
	case !in.IdleSince.IsZero():
		return in.IdleSince, true
	case !c.IdleSince.IsZero():
		return c.IdleSince, true
	}
	return stampAt(w.memory.FreeSince, cardName(n.name, c.Index))
}

func cardName(node string, index int) string { return fmt.Sprintf("%s/%d", node, index) }

// lacking is what of a need the node will lack once the spare instances have
// gone; false when those are already promised to others.
func lacking(need, free []mig.Count, spare mig.Layout) ([]mig.Count, bool) {
	gone := mig.Counts(spare)
	for _, g := range gone {
		if countOf(free, g.Profile) < g.N {
			return nil, false
		}
	}
	short := false
	var must []mig.Count
	for _, c := range need {
		short = short || countOf(free, c.Profile) < c.N
		if n := c.N - (countOf(free, c.Profile) - countOf(gone, c.Profile)); n > 0 {
			must = append(must, mig.Count{Profile: c.Profile, N: n})
		}
	}
	if !short {
		return nil, true // it is not slices that the pod lacks
	}
	return must, true
}
