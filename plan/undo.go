package plan

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// undo is what reverts a trial. What changes a node calls touch first;
// everything else is small and copied at the start.
type undo struct {
	nodes   map[int]nodeState
	count   int
	pools   []poolState
	actions []Action
	state   State
	kinds   []cursor
	tree    quota.Tree
	evicted int
	left    []*Pod // evicted by the trial
}

// cursor is the state of a kind that a trial may change.
type cursor struct {
	unserved int
	bounded  bool
}

// try runs do, and reverts its changes when it returns false.
func (w *world) try(do func() bool) bool {
	if w.undo != nil { // reverted with the outer trial
		return do()
	}
	u := &undo{nodes: map[int]nodeState{}, count: len(w.nodes), pools: slices.Clone(w.pools), actions: slices.Clone(w.actions),
		state: w.state, tree: w.tree, evicted: w.evicted}
	for i := range w.kinds {
		k := &w.kinds[i]
		u.kinds = append(u.kinds, cursor{k.unserved, k.bounded})
	}
	for i := range u.pools {
		u.pools[i].spare = slices.Clone(u.pools[i].spare)
	}
	w.undo, w.topology.log = u, nil
	w.trials++
	ok := do()
	w.undo = nil
	if !ok {
		w.revert(u)
	}
	w.topology.log = nil
	return ok
}

// touch saves a node for the trial under way and returns it.
func (w *world) touch(node int) *nodeState {
	n := &w.nodes[node]
	if w.undo != nil && node < w.undo.count {
		if _, pruned := w.undo.nodes[node]; !pruned {
			before := *n
			before.capacity = n.capacity.clone()
			before.repartition = slices.Clone(n.repartition)
			w.undo.nodes[node] = before
		}
	}
	n.estimates = nil
	return n
}

func (w *world) revert(u *undo) {
	w.nodes = w.nodes[:u.count]
	w.pools, w.actions, w.state, w.tree, w.evicted = u.pools, u.actions, u.state, u.tree, u.evicted
	for _, p := range u.left {
		delete(w.evictedPods, p)
		for _, b := range p.Budgets {
			w.budgets[b.Name]++
		}
	}
	for i := range u.kinds {
		k, c := &w.kinds[i], u.kinds[i]
		k.unserved, k.bounded = c.unserved, c.bounded
	}
	w.topology.revert()
	w.further = nil
	touched := make([]int, 0, len(u.nodes))
	for i := range u.nodes {
		touched = append(touched, i)
	}
	slices.Sort(touched)
	for _, i := range touched {
		w.nodes[i] = u.nodes[i]
		w.reindex(i)
	}
}
