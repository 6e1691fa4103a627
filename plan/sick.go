package plan

import (
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
)

// replaceSick continues the drains of sick nodes and begins new ones, before
// demand is served: the node that follows a sick one is upcoming supply.
func (w *world) replaceSick() {
	for i, n := range w.eachNode() {
		if n.draining() && n.Drain.Reason == NodeSick && n.decided.reason == "" {
			w.continueDrain(i)
			if p := n.pool; (n.action < 0 || w.actions.list[n.action].Verb == Drain) && p.stop == "" && !p.Fixed {
				next := w.addVirtual(n.pool, w.now.Add(gracePeriod+p.ReadyAfter), -1)
				for _, q := range w.nodes[i].staying() { // they will need it
					w.models.takeRunning(q, &w.nodes[next].capacity)
				}
			}
		}
	}
	w.replaceNext()
}

// replaceNext replaces nodes with a GPU that has been sick for long enough, one
// for each pool and the longest sick first: at once where nothing runs, else by
// a drain. It does not require free capacity for the pods: the GPU they use may
// be the sick one.
func (w *world) replaceNext() {
	for _, i := range w.sickForLong() {
		n := &w.nodes[i]
		text := "a GPU has been sick for " + short(w.now.Sub(w.state.SickSince[n.name]))
		switch why := w.keepsSick(n); {
		case why != "":
			n.decided = verdict{NodeSick, text + "; " + why}
		case n.vacant():
			n.pool.does = verdict{NodeSick, "replaces " + n.name}
			w.replace(n, NodeSick, text)
		default:
			p := n.pool
			p.replacing++
			p.does = verdict{NodeSick, "drains " + n.name}
			w.drain(n, w.now.Add(w.policy.DrainTimeout), NodeSick, text+", "+count(len(n.staying()), "pod")+" to move")
		}
	}
}

// sickForLong lists the nodes to replace, the longest sick first, without those already decided
// about or in a drain, which have to leave anyway.
func (w *world) sickForLong() []int {
	if w.policy.SickAfter <= 0 {
		return nil
	}
	since := w.state.SickSince
	var out []int
	for i, n := range w.eachNode() {
		if at, sick := since[n.name]; sick && n.decided.reason == "" && n.Drain == nil && w.now.Sub(at) >= w.policy.SickAfter {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return since[w.nodes[a].name].Compare(since[w.nodes[b].name]) })
	return out
}

// keepsSick returns why a sick node is not replaced now, empty for no reason.
func (w *world) keepsSick(n *nodeState) string {
	p := n.pool
	switch {
	case !w.may(n.pool):
		return "nothing may be done now"
	case p.Fixed:
		return "the pool is fixed: no other node replaces it"
	case p.stop != "":
		return "the pool cannot add a node in its place: " + string(p.stop)
	case w.within(w.state.LastScaleDown, p.Name, w.policy.RemovalInterval):
		return "the pool removed a node a moment ago"
	case w.policy.tooManySick(p):
		return w.policy.manySickText(p)
	case p.replacing > 0:
		return "another node of the pool is being replaced"
	case w.within(w.state.LastReplace, p.Name, w.policy.ReplaceInterval):
		at := w.state.LastReplace[p.Name]
		return fmt.Sprintf("another node of the pool was replaced %s ago, and %s must lie between replacements", short(w.now.Sub(at)), short(w.policy.ReplaceInterval))
	case n.action >= 0 || n.Operation != nil || n.CordonedBy != "" || n.promised > 0:
		return "another action is under way on it"
	case n.since == NodeCordoned:
		return "it is cordoned"
	case n.NoScaleDown:
		return "scale down is disabled for it"
	case n.vacant():
		return ""
	}
	return w.keepsFromDrain(n)
}

// keepsFromDrain returns why a sick node with pods cannot be drained now.
func (w *world) keepsFromDrain(n *nodeState) string {
	if n.LeavesAt.After(w.now) {
		return w.interruptionText(n)
	}
	if w.freeDrains() <= 0 {
		return fmt.Sprintf("%s may be drained at a time", count(w.policy.MaxDrains, "node"))
	}
	if f := w.state.Failures[n.name]; f.Count > 0 && w.now.Sub(f.At) < drainAgainAfter {
		return fmt.Sprintf("its drain was given up %s ago", short(w.now.Sub(f.At)))
	}
	if why := w.stays(n.staying(), w.now.Add(w.policy.DrainTimeout)); why != "" {
		return why
	}
	if why := w.soundWork(n); why != "" {
		return why
	}
	if h := n.unknownPod(); h != "" {
		return h + " is allocated a GPU of the node and does not run on it"
	}
	return ""
}

// soundWork returns why a sick node's pods are not moved, empty where they are. They stay
// where none of them uses a sick GPU, and the loss of moving them is more than the sick GPUs
// cost, for NodeLife or for as long as they have been sick, whichever is longer.
func (w *world) soundWork(n *nodeState) string {
	sick := 0
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if device.Health != gpu.Sick {
			continue
		}
		if !device.free() { // allocated, or perhaps
			return ""
		}
		sick++
	}
	at := w.state.SickSince[n.name]
	idle := float64(sick) * w.gpuPrice(n.name) * max(w.policy.NodeLife, w.now.Sub(at)).Hours()
	lost := w.evictions.loss(n.staying(), n.restart())
	if lost <= idle {
		return ""
	}
	return fmt.Sprintf("no pod uses the sick GPUs, and moving %s would cost %.2f, more than the GPUs (%.2f)", count(len(n.staying()), "pod"), lost, idle)
}

// tooManySick reports a pool with so many sick nodes that a common cause is
// likely: a driver, an image, or the health data.
func (policy *Policy) tooManySick(p *poolState) bool {
	return p.sick > 1 && float64(p.sick) > policy.MaxSickShare*float64(max(p.Size, p.sick))
}

func (policy *Policy) manySickText(p *poolState) string {
	return fmt.Sprintf("%d of %d nodes are sick, more than %.0f %%: a common cause is likely, and none is replaced",
		p.sick, max(p.Size, p.sick), 100*policy.MaxSickShare)
}

// replace removes a node and has its pool make another.
func (w *world) replace(n *nodeState, reason Reason, detail string) {
	w.actions.on(n, Action{Verb: Replace, Reason: reason, Detail: detail})
	n.tier, n.since = tierOut, reason
	w.addSpare(n.pool, w.now.Add(n.pool.ReadyAfter), -1)
	w.state.LastReplace = with(w.state.LastReplace, n.Pool, w.now)
	// Its successor is upcoming from now on, as after a scale up.
	w.state.LastScaleUp = with(w.state.LastScaleUp, n.Pool, w.now)
}
