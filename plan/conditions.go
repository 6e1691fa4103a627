package plan

import "time"

// conditions are what a plan is decided under. Their methods judge one node, pool, pod or
// GPU by its times and by what the policy allows; they read nothing else of the world.
type conditions struct {
	now      time.Time
	policy   Policy
	state    State  // as earlier reconciles left it, and with what each stage records of its own actions
	hold     Reason // why nothing at all is done, empty for no reason; set by judgeNodes
	idleHold string // why idle nodes are not acted on, empty for no reason; set by holdIdle
}

// since is the time recorded under a name. It is now where there is none, or one in the future.
func (cond *conditions) since(times Times, name string) time.Time {
	if at, ok := times[name]; ok && !at.After(cond.now) {
		return at
	}
	return cond.now
}

// within reports a time that is less than d ago. One of now always is, so that
// two plans of the same instant do not act twice.
func (cond *conditions) within(times Times, name string, d time.Duration) bool {
	return cond.now.Sub(times[name]) < max(d, time.Nanosecond)
}

// failed reports whether an operation has to be rolled back.
func (cond *conditions) failed(o *Operation) bool {
	return o.Phase == PhaseFailed || o.Phase != PhaseSucceeded && !o.Deadline.IsZero() && cond.now.After(o.Deadline)
}

// gone is when a leaving pod will have left. The longer it is overdue, the longer that is
// likely to last: a finalizer or a hung GPU can keep it for good.
func (cond *conditions) gone(p *Pod) time.Time {
	if p.LeavesAt.IsZero() {
		return cond.now.Add(aMoment)
	}
	return cond.now.Add(max(aMoment, cond.now.Sub(p.LeavesAt).Abs()))
}

// StuckAfter is how long after the end of its grace period a leaving pod still keeps its node. After that it is stuck:
// a process that a hung driver keeps, say, ends only with the machine. cluster-autoscaler waits for the grace period
// again and half a minute (1.37, utils/drain), Karpenter for a minute (1.14, pkg/utils/pod).
const StuckAfter = 5 * time.Minute

// Stuck reports a leaving pod that no longer keeps its node.
func (p *Pod) Stuck(now time.Time) bool {
	return p.Leaving && !p.LeavesAt.IsZero() && now.Sub(p.LeavesAt) >= StuckAfter
}

// Charged reports whether a running pod counts towards its tenant's quota. A pod that leaves soon does not: its
// successor is planned for. One that leaves later than StuckAfter from now does: its GPUs are in use until then, and a
// grace period may be years.
func (p *Pod) Charged(now time.Time) bool {
	return !p.Leaving || p.LeavesAt.Sub(now) > StuckAfter
}

// emptiness returns whether a node in service is empty, and for how long it has been.
func (cond *conditions) emptiness(n *nodeState) (Reason, time.Duration) {
	switch {
	case n.tier != tierNow:
		return n.since, 0
	case n.bound > 0 || n.NoScaleDown:
		return NodeBusy, 0
	case n.promised > 0:
		return NodeNeeded, 0
	case n.notFree != "":
		return n.notFree, 0
	}
	return NodeEmpty, min(n.idle, cond.now.Sub(cond.state.FreeSince[n.name])) // none recorded: long ago
}

// keepsPool returns what prevents the removal of a pool's nodes, empty for nothing.
func (cond *conditions) keepsPool(p *poolState) Reason {
	switch {
	case p.Fixed:
		return PoolFixed
	case cond.hold != "":
		return cond.hold
	case p.Freeze:
		return Frozen
	case cond.idleHold != "":
		return TooManyIdle
	case min(p.Target, p.Size)-p.shrunk-p.draining <= p.Min:
		return AtMin
	case cond.within(cond.state.LastScaleUp, p.Name, cond.policy.ScaleDownCooldown),
		cond.within(cond.state.LastScaleDown, p.Name, cond.policy.RemovalInterval):
		return CoolingDown
	}
	return ""
}

// keepsEmpty reports a pool whose empty nodes stay indefinitely.
func (cond *conditions) keepsEmpty(p *poolState) bool {
	why := cond.keepsPool(p)
	return why == AtMin || why == PoolFixed
}
