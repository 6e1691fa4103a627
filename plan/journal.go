package plan

import "slices"

// journal reverts trials: it has one entry for every write to the world since
// the trial began. What is derived from the world (indices, splits, estimates)
// is not in it: it is derived again.
type journal struct {
	undo    []func()
	trials  int // begun so far
	current int // the innermost trial under way, 0 for none
	touched []int
}

// try runs do, and reverts all its writes when it returns false. Trials nest.
func (w *world) try(do func() bool) bool {
	j := &w.journal
	mark, outer := len(j.undo), j.current
	j.trials++
	j.current = j.trials
	state, tree, evicted, spent, lowest := w.state, w.tree, w.evicted, w.spent, w.lowest
	w.record(func() { w.state, w.tree, w.evicted, w.spent, w.lowest = state, tree, evicted, spent, lowest })
	ok := do()
	if !ok {
		w.revert(mark)
	}
	if j.current = outer; outer == 0 {
		j.undo = j.undo[:0]
	}
	return ok
}

// record adds what reverts a write to the trial under way.
func (w *world) record(undo func()) {
	if w.journal.current != 0 {
		w.journal.undo = append(w.journal.undo, undo)
	}
}

func (w *world) revert(mark int) {
	j := &w.journal
	undo := j.undo[mark:]
	j.undo = j.undo[:mark]
	current := j.current
	j.current, j.touched = 0, j.touched[:0] // what undoes a write is not recorded
	for _, f := range slices.Backward(undo) {
		f()
	}
	j.current = current
	w.further = nil
	slices.Sort(j.touched)
	for _, i := range slices.Compact(j.touched) {
		if i < len(w.nodes) {
			w.reindex(i)
		}
	}
}

// touch returns a node to write to.
func (w *world) touch(node int) *nodeState {
	n := &w.nodes[node]
	if c := w.journal.current; c != 0 && n.saved != c {
		before := *n
		before.capacity = n.capacity.clone()
		before.derived = nil
		n.saved = c
		w.record(func() {
			w.nodes[node] = before
			w.journal.touched = append(w.journal.touched, node)
		})
	}
	if n.derived != nil {
		n.derived.estimates = nil
	}
	return n
}

func (n *nodeState) derive() *derived {
	if n.derived == nil {
		n.derived = &derived{}
	}
	return n.derived
}

// edit returns an entry of a list of the world to write to.
func edit[T any](w *world, list *[]T, i int) *T {
	if w.journal.current != 0 {
		before := (*list)[i]
		w.record(func() { (*list)[i] = before })
	}
	return &(*list)[i]
}

func (w *world) touchPool(p *poolState) *poolState { return edit(w, &w.pools, p.index) }

func (w *world) touchPending(i int) *pending { return edit(w, &w.pending, i) }

func (w *world) editAction(i int) *Action { return edit(w, &w.actions, i) }

// touchKind returns a kind whose counts are written to.
func (w *world) touchKind(kind int) *kind {
	k := &w.kinds[kind]
	if w.journal.current != 0 {
		unserved, bounded := k.unserved, k.bounded
		w.record(func() { w.kinds[kind].unserved, w.kinds[kind].bounded = unserved, bounded })
	}
	return k
}

// addNode appends a node and returns its index.
func (w *world) addNode(n nodeState) int {
	w.nodes = append(w.nodes, n)
	last := len(w.nodes) - 1
	w.record(func() {
		w.nodes = w.nodes[:last]
		for _, s := range w.groupings {
			s.forget(last)
		}
	})
	return last
}

// addAction appends an action and returns its index.
func (w *world) addAction(a Action) int {
	w.actions = append(w.actions, a)
	last := len(w.actions) - 1
	w.record(func() { w.actions = w.actions[:last] })
	return last
}
