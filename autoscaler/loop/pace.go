package loop

import (
	"context"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// bootsWithin is how long after its creation a node that is not ready may become ready
// at any moment.
const bootsWithin = time.Hour

// longSettle bounds the time that a reconcile settles while more pods become pending, in
// multiples of Settle. Scaling up once for a burst packs better than in several waves.
const longSettle = 3

// With manyPending pods pending, a reconcile settles up to maxSettle: so many pods come
// in waves, each reconcile is expensive, and nodes added in fewer reconciles pack better.
const (
	manyPending = 250
	maxSettle   = time.Second
)

// idle reports whether a reconcile has found nothing to do and nothing that time alone
// changes soon: no pod is pending, no operation is under way, and no node leaves. The
// next reconcile can then wait for a change.
func idle(r Reconcile) bool {
	if len(r.Plan.Actions) > 0 || len(r.Results) > 0 {
		return false
	}
	for i := range r.Pods {
		if p := &r.Pods[i]; p.Node == "" || p.Leaving {
			return false
		}
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Operation != nil || n.Drain != nil || n.CordonedBy != "" || !n.Ready && r.Now.Sub(n.Created) < bootsWithin {
			return false
		}
	}
	for i := range r.Pools {
		if p := &r.Pools[i]; p.Target != p.Size || p.BackoffUntil.After(r.Now) {
			return false
		}
	}
	for i := range r.Plan.Verdicts {
		if !steady(&r.Plan.Verdicts[i]) {
			return false
		}
	}
	return true
}

// steady reports whether only an outside change, or hours, can change a verdict.
func steady(v *plan.Verdict) bool {
	switch v.Kind {
	case plan.KindPool:
		return v.Reason == plan.Steady || v.Reason == plan.AtMin || v.Reason == plan.PoolAtMax || v.Reason == plan.Frozen
	case plan.KindNode:
		return v.Reason != plan.NodeEmpty
	case plan.KindPod:
		return v.Reason == plan.Running
	}
	return true
}

// Unhurried reports whether fresher readings of allocations would not change the last
// reconcile's decisions: no pod is pending for an instance or a fraction of a GPU, and
// no GPU is being repartitioned, drained or reclaimed. Whole GPUs are counted by pod
// requests, as the scheduler does, without readings.
func (s *State) Unhurried() bool {
	r, ok := s.Last()
	return ok && unhurried(&r)
}

func unhurried(r *Reconcile) bool {
	for i := range r.Pods {
		if p := &r.Pods[i]; p.Node == "" && (len(p.Demand.MIG) > 0 || p.Demand.Fraction != nil || p.Unreadable != "") {
			return false
		}
	}
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Operation != nil || n.Drain != nil || n.CordonedBy != "" {
			return false
		}
	}
	for i := range r.Plan.Verdicts {
		switch v := &r.Plan.Verdicts[i]; v.Reason {
		case plan.AllocationUnknown, plan.WaitRepartition, plan.WaitReclaim, plan.RepartitionExhausted:
			if v.Kind == plan.KindPod || v.Kind == plan.KindGang {
				return false
			}
		}
	}
	return true
}

// settle waits for more pending pods after the one that woke the loop, longer while more
// come, up to a bound. It returns false when ctx has ended.
func (l *Loop) settle(ctx context.Context) bool {
	if l.o.Settle <= 0 {
		return ctx.Err() == nil
	}
	settled, bound := time.NewTimer(l.o.Settle), time.NewTimer(l.longest())
	defer settled.Stop()
	defer bound.Stop()
	first := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-bound.C:
			return true
		case <-settled.C:
			return true
		case <-l.o.Wake:
			settled.Reset(max(l.o.Settle/2, l.o.Settle-time.Since(first)))
		}
	}
}

// longest is the bound on settling.
func (l *Loop) longest() time.Duration {
	last, _ := l.State.Last()
	pending := 0
	for i := range last.Pods {
		if last.Pods[i].Node == "" {
			pending++
		}
	}
	usual := longSettle * l.o.Settle
	if pending >= manyPending {
		return max(usual, min(maxSettle, 2*usual))
	}
	return usual
}

// pause is the time between the last reconcile, which returned err, and the next.
func (l *Loop) pause(err error) time.Duration {
	last, ok := l.State.Last()
	if l.o.IdleInterval > l.o.Interval && l.o.Changed != nil && err == nil && ok && idle(last) {
		return l.o.IdleInterval
	}
	return l.o.Interval
}
