package plan

// actions are this plan's actions. Every stage adds its own; a trial that is reverted takes its
// actions back.
type actions struct {
	conditions *conditions
	journal    *journal
	list       []Action
	finishing  int // how many of them, the first ones, end what is under way
	evicted    int // evictions among them, without those of drains
}

// add appends an action and returns its index.
func (as *actions) add(a Action) int {
	as.list = append(as.list, a)
	last := len(as.list) - 1
	as.journal.record(func() { as.list = as.list[:last] })
	return last
}

// on adds an action on a node of a pool; its reason is the node's verdict too.
func (as *actions) on(n *nodeState, a Action) {
	a.Pool, a.Node = n.Pool, n.name
	n.action = as.add(a)
	n.decided = verdict{a.Reason, a.Detail}
}

// edit returns an action to write to.
func (as *actions) edit(i int) *Action { return edit(as.journal, &as.list, i) }

// doneFor records a pod for which an action is done.
func (as *actions) doneFor(action int, p *pending) {
	a := as.edit(action)
	a.For = append(a.For, p.pod.Key())
}

// full reports whether the plan has as many actions as it may.
func (as *actions) full() bool { return as.begun() >= as.conditions.policy.MaxActionsPerReconcile }

// begun counts the actions that begin something, see finishing.
func (as *actions) begun() int { return len(as.list) - as.finishing }

// evictionBound is the bound that delays n more evictions, empty for none.
func (as *actions) evictionBound(n int) string {
	policy := &as.conditions.policy
	switch {
	case as.evicted+n > policy.MaxEvictionsPerReconcile:
		return "at most " + count(policy.MaxEvictionsPerReconcile, "eviction") + " a reconcile"
	case as.begun()+n > policy.MaxActionsPerReconcile:
		return policy.actionBound()
	}
	return ""
}
