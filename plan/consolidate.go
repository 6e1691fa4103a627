package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// maxTrials bounds the trial drains of one reconcile.
const maxTrials = 32

// underused is a node whose pods may all be moved, and what that gains.
type underused struct {
	node int
	gain float64 // its price over a node's life, less what is lost with its pods
	loss float64 // of moving its pods
}

// consolidate drains nodes whose pods all fit on others, where the price saved
// over a node's life is more than the loss of moving them: the largest gain
// first, nodes with cached data last.
func (w *world) consolidate() {
	left := w.freeDrains()
	if left <= 0 || w.hold != "" || !w.mayRemove() {
		return
	}
	trials, drained := maxTrials, make([]bool, len(w.pools))
	for _, u := range w.underused() {
		if left <= 0 || trials <= 0 {
			return
		}
		n := &w.nodes[u.node]
		// At most one node of a pool, and none that takes the pods of another.
		if drained[n.pool.index] || !w.may(n.pool) || n.promised > 0 || n.unknown || n.unknownPod() != "" || !w.fitsElsewhere(u.node) {
			continue
		}
		trials--
		stay := n.staying()
		if !w.try(func() bool { return w.empties(u, stay) }) {
			continue
		}
		left--
		drained[n.pool.index] = true
		p := n.pool
		p.draining++
		p.does = verdict{NodeUnderused, "drains " + n.name}
		w.state.LastDrain = with(w.state.LastDrain, n.Pool, w.now)
		w.drain(n, w.now.Add(w.policy.DrainTimeout), NodeUnderused, w.policy.underusedText(u, stay))
	}
}

// empties moves a node's pods to others and reports whether that saves money. A
// target that was empty and could have been removed instead counts with its price.
func (w *world) empties(u underused, stay []*Pod) bool {
	n := w.touch(u.node)
	n.tier, n.since = tierOut, NodeDraining
	to, stuck := w.moveAway(u.node, stay)
	if stuck != nil {
		return false
	}
	cost := 0.0
	for i := range w.nodes { // in order, so that the sum is the same
		n := &w.nodes[i]
		if to[i] > 0 && n.bound == 0 && n.promised == to[i] && n.pool != nil && !w.keepsEmpty(n.pool) {
			cost += w.policy.life(n.pool)
		}
	}
	return u.gain > cost
}

// fitsElsewhere reports whether the largest of a node's pods fits anywhere: a
// cheap check before a trial.
func (w *world) fitsElsewhere(node int) bool {
	stay := w.nodes[node].staying()
	i := slices.IndexFunc(stay, func(p *Pod) bool { return !w.policy.expendable(p) })
	if i < 0 {
		return true
	}
	w.topology.count(stay[i], node, -1)
	defer w.topology.count(stay[i], node, 1)
	return w.sound(w.kindOf(stay[i])) >= 0
}

func (policy *Policy) underusedText(u underused, pods []*Pod) string {
	text := "its pods fit on other nodes"
	if slices.ContainsFunc(pods, policy.expendable) {
		text += " or are expendable"
	}
	return fmt.Sprintf("%s; moving %s costs %.2f, the node %.2f in %s",
		text, count(len(pods), "pod"), u.loss, u.gain+u.loss, short(policy.NodeLife))
}

// underused lists the nodes that could be emptied at a gain. It leaves out pools that scale up,
// cool down, are stopped or at their minimum, and pools whose nodes an unserved pod fits.
func (w *world) underused() []underused {
	keeps, unserved := make([]bool, len(w.pools)), w.unservedKinds()
	for i, p := range w.pools {
		keeps[i] = w.keepsPool(p) != "" || p.stop != "" || p.Target > p.Size || w.within(w.state.LastDrain, p.Name, w.policy.DrainCooldown) ||
			slices.ContainsFunc(unserved, func(k *kind) bool { return w.misfit(k, p) == "" })
	}
	var out []underused
	for i, n := range w.eachNode() {
		if n.pool == nil || keeps[n.pool.index] {
			continue
		}
		if u, ok := w.underusedNode(i); ok {
			out = append(out, u)
		}
	}
	slices.SortStableFunc(out, func(a, b underused) int {
		return cmp.Or(cmp.Compare(one(w.nodes[a.node].HoldsData), one(w.nodes[b.node].HoldsData)), cmp.Compare(b.gain, a.gain), cmp.Compare(a.node, b.node))
	})
	return out
}

func (w *world) underusedNode(node int) (underused, bool) {
	n := &w.nodes[node]
	u := underused{node: node}
	if n.tier != tierNow || n.action >= 0 || n.NoScaleDown || n.settling || n.bound == 0 || n.promised > 0 || n.leaving > 0 {
		return u, false
	}
	var gone []placedPod // those with budgets
	for _, p := range n.pods {
		switch {
		case p.DaemonSet || p.Stuck(w.now):
		case !w.evictions.movable(p) || p.comesBack() || !w.evictions.budgetsAllow(p, gone):
			return u, false
		case len(p.Budgets) > 0:
			gone = append(gone, placedPod{node, p})
		}
	}
	u.loss = w.evictions.loss(slices.DeleteFunc(n.staying(), w.policy.expendable), gracePeriod)
	u.gain = w.policy.life(n.pool) - u.loss
	if !(u.gain > 0) {
		return u, false
	}
	f := w.state.Failures[n.name]
	return u, f.Count == 0 || w.now.Sub(f.At) >= drainAgainAfter
}
