package plan

// Make decides what should be done. It is pure and total: equal snapshots, in
// whatever order their slices come, give equal plans, and no input makes it
// panic or loop. A snapshot for which Check returns an error still gets a plan,
// though not one to act on.
func Make(s Snapshot, p Policy) Plan {
	w := newWorld(s, p)
	w.decide()
	return w.plan()
}

func (w *world) plan() Plan {
	return Plan{
		At:       w.now,
		Actions:  w.actions,
		Verdicts: w.verdicts(),
		Memory:   w.nextMemory(),
		Totals:   w.totals(),
	}
}

// decide goes through the stages.
func (w *world) decide() {
	w.rememberFree()
	w.rememberUnknown()
	w.rememberSick()
	w.doubtIdle()
	w.countDrains()
	w.finishOperations()
	w.admit()
	w.placeNow()
	w.release()
	w.raiseToMin()
	w.placeRest(true)
	w.readmit()
	w.regain()
	w.placeRest(false)
	w.evacuate()
	w.prepare()
	w.giveBack()
}

// may reports whether an action on a node of this pool (-1 for none) may be
// added to the plan.
func (w *world) may(pool int) bool {
	return w.hold == "" && len(w.actions) < w.policy.MaxActionsPerRound && (pool < 0 || !w.pools[pool].Freeze)
}

// mayFinish reports whether what was begun may be finished, or undone: a freeze
// lets nothing begin, and leaves nothing half done.
func (w *world) mayFinish() bool {
	return (w.hold == "" || w.hold == Frozen) && len(w.actions) < w.policy.MaxActionsPerRound
}

// frozen reports a pool of which nothing new may be begun, by its own freeze or
// the policy's.
func (w *world) frozen(pool int) bool { return w.hold == Frozen || pool >= 0 && w.pools[pool].Freeze }

// finishOperations releases what is done and undoes what failed or is overdue.
func (w *world) finishOperations() {
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || !w.mayFinish() {
			continue
		}
		a := Action{Node: n.name, Pool: n.Pool}
		switch o := n.Operation; {
		case o == nil && n.CordonedBy == "", n.Drain != nil:
			continue
		case o == nil:
			a.Verb, a.Operation, a.Reason = Uncordon, n.CordonedBy, RepartitionDone
			a.Detail = n.CordonedBy + " cordoned the node and is no longer under way"
		case o.Phase == PhaseSucceeded:
			a.Verb, a.Operation, a.Reason = Uncordon, o.ID, RepartitionDone
			a.Detail = "after " + short(w.now.Sub(o.Started))
			w.succeed(cardName(n.name, o.Card))
		case o.Phase == PhaseFailed:
			a.Verb, a.Operation, a.Reason, a.Detail = Rollback, o.ID, RepartitionFailed, o.Message
			w.failOperation(n, o)
		case w.failed(o):
			a.Verb, a.Operation, a.Reason = Rollback, o.ID, RepartitionOverdue
			a.Detail = "no answer after " + short(w.now.Sub(o.Started))
			w.failOperation(n, o)
		default:
			continue
		}
		w.actions = append(w.actions, a)
	}
}

// totals are before and after: prices of all nodes that are or will be there,
// and what pending pods want.
func (w *world) totals() Totals {
	var t Totals
	for i := range w.pools {
		p := &w.pools[i]
		t.CostPerHour += float64(max(p.Size, 0)) * p.price()
		t.CostPerHourAfter += float64(p.base+p.grown-p.shrunk) * p.price()
	}
	for i := range w.pending {
		p := &w.pending[i]
		n := slicesOf(p.pod)
		t.PendingSlices += n
		if !p.served {
			t.PendingSlicesLeft += n
		}
	}
	return t
}
