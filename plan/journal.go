package plan

import "slices"

// journal reverts trials: it has one entry for every write to the world since
// the trial began. What is derived from the world (indices, splits, estimates)
// is not in it: it is derived again.
type journal struct {
	undo    []func()
	trials  int   // begun so far
	current int   // number of the innermost trial under way, 0 for none
	touched []int // nodes that the last revert restored
}

// try runs do, and reverts all its writes when it returns false. Trials nest.
func (w *world) try(do func() bool) bool {
	j := w.journal
	mark, outer := len(j.undo), j.current
	j.trials++
	j.current = j.trials
	state, tree, evicted, spent, lowest := w.state, w.quotas.tree, w.actions.evicted, w.serving.spent, w.serving.lowest
	w.journal.record(func() {
		w.state, w.quotas.tree, w.actions.evicted, w.serving.spent, w.serving.lowest = state, tree, evicted, spent, lowest
	})
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
func (j *journal) record(undo func()) {
	if j.current != 0 {
		j.undo = append(j.undo, undo)
	}
}

func (w *world) revert(mark int) {
	j := w.journal
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
		w.journal.record(func() {
			w.nodes[node] = before
			w.journal.touched = append(w.journal.touched, node)
		})
	}
	if n.derived != nil {
		n.derived.estimates = nil
	}
	return n
}

// edit returns an entry of a list to write to.
func edit[T any](j *journal, list *[]T, i int) *T {
	if j.current != 0 {
		before := (*list)[i]
		j.record(func() { (*list)[i] = before })
	}
	return &(*list)[i]
}

// touchPool returns a pool to write to.
func (w *world) touchPool(p *poolState) *poolState {
	if w.journal.current != 0 {
		before := *p
		w.journal.record(func() { *p = before })
	}
	return p
}

// addNode appends a node and returns its index.
func (w *world) addNode(n nodeState) int {
	w.nodes = append(w.nodes, n)
	last := len(w.nodes) - 1
	w.journal.record(func() { w.nodes = w.nodes[:last] })
	return last
}
