package plan

import "math/rand/v2"

// Make decides what should be done. It is pure and total: equal snapshots, in
// whatever order their slices come, give equal plans, and no input makes it panic
// or loop. An invalid snapshot gets a plan too, which must not be executed.
func Make(s Snapshot, p Policy) Plan {
	w := newWorld(s, p)
	w.decide()
	return w.plan()
}

func (w *world) plan() Plan {
	return Plan{
		At:       w.now,
		Actions:  w.actions.list,
		Verdicts: w.verdicts(),
		State:    w.nextState(),
		Totals:   w.totals(),

		Nominations: w.nominations(),
	}
}

// decide runs the stages of docs/internals/003-planner.md in order. Their bounds are
// may, delays, nodeBound, evictionBound and mayRemove.
func (w *world) decide() {
	w.supply()
	w.admit()
	w.placeNow()
	w.serveAll()
	w.prepare()
	w.scaleDown()
}

// supply records since when nodes are free, sick or of unknown allocation, where the
// snapshot does not state it, and ends repartitions that succeeded, failed or are overdue.
func (w *world) supply() {
	before := w.state
	w.state.FreeSince, w.state.UnknownSince, w.state.SickSince = Times{}, Times{}, Times{}
	for i, n := range w.eachNode() {
		if !n.virtual && n.pool != nil {
			w.recordFree(n, before.FreeSince)
			w.recordUnknown(n, before.UnknownSince)
			if n.sick {
				w.state.SickSince[n.name] = w.since(before.SickSince, n.name)
				n.pool.sick++
			}
			w.countDrain(i)
		}
	}
	w.holdIdle()
	w.finishOperations()
	w.withdraw()
}

// serveAll serves what the scheduler cannot place. Sick nodes come first, since their
// successors are supply. Then come pending pods that the scheduler has marked
// unschedulable, then the pods of interrupted nodes, and last the unmarked pending pods:
// no action is taken for those.
func (w *world) serveAll() {
	w.replaceSick()
	w.raiseToMin()
	w.placeRest(true)
	w.readmit()
	w.reclaimGuarantees()
	w.evacuate()
	w.placeRest(false)
}

// may reports whether an action on a node of this pool (nil for none) may be
// added to the plan.
func (w *world) may(p *poolState) bool {
	return w.hold == "" && !w.actions.full() && (p == nil || !p.Freeze)
}

// finishOperations uncordons nodes after a repartition and rolls back what failed or is
// overdue; a freeze prevents new operations only. A rollback that fails is repeated in each
// reconcile. So these actions do not count towards MaxActionsPerReconcile. The same number
// bounds them separately: where there are more, each reconcile takes them from another one on.
func (w *world) finishOperations() {
	defer func() { w.actions.finishing = len(w.actions.list) }()
	if w.hold != "" && w.hold != Frozen {
		return
	}
	for _, n := range w.eachNode() {
		a := Action{Node: n.name, Pool: n.Pool}
		switch o := n.Operation; {
		case o == nil && n.CordonedBy == "", n.Drain != nil:
			continue
		case n.LeavesAt.After(w.now) && (o == nil || o.Phase == PhaseSucceeded): // pods would be bound to it again
			continue
		case o == nil:
			a.Verb, a.Operation, a.Reason = Uncordon, n.CordonedBy, RepartitionDone
			a.Detail = n.CordonedBy + " cordoned the node and is no longer under way"
		case o.Phase == PhaseSucceeded:
			a.Verb, a.Operation, a.Reason = Uncordon, o.ID, RepartitionDone
			a.Detail = "took " + short(w.now.Sub(o.Started))
			w.state.Failures = kept(w.state.Failures, func(name string, _ Failure) bool { return name != gpuName(n.name, o.GPU) })
		case o.Phase == PhaseFailed:
			a.Verb, a.Operation, a.Reason, a.Detail = Rollback, o.ID, RepartitionFailed, o.Message
			w.failOperation(n, o)
		case w.failed(o):
			a.Verb, a.Operation, a.Reason = Rollback, o.ID, RepartitionOverdue
			a.Detail = "no result after " + short(w.now.Sub(o.Started))
			w.failOperation(n, o)
		default:
			continue
		}
		w.actions.add(a)
	}
	if all, most := len(w.actions.list), max(w.policy.MaxActionsPerReconcile, 0); all > most {
		first := rand.New(rand.NewPCG(uint64(w.now.Unix()), 0)).IntN(all) // the same plan for the same time
		w.actions.list = append(w.actions.list[first:], w.actions.list[:first]...)[:most]
	}
}

// totals are the prices of all nodes before and after the plan, and the demand of
// pending pods.
func (w *world) totals() Totals {
	var t Totals
	for _, p := range w.pools {
		t.CostPerHour += float64(max(p.Size, 0)) * p.price
		t.CostPerHourAfter += float64(p.base+p.grown-p.shrunk) * p.price
	}
	for i := range w.pending {
		p := &w.pending[i]
		n := slicesOf(p.pod)
		t.PendingSlices += n
		if !p.served || p.reason == BoundReached {
			t.PendingSlicesLeft += n
		}
	}
	return t
}
