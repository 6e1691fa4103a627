package loop

import (
	"context"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// bootsWithin is how long after its creation a node that is not ready is expected to
// become so at any moment.
const bootsWithin = time.Hour

// longSettle is how many times Settle a round waits at the most, while more and more
// pods come that cannot be placed. What is known of a burst is bought for together,
// which packs better than wave by wave.
const longSettle = 3

// crowd is how many pods must wait for a round to settle up to crowdSettles: so many
// come in waves however soon the first are served, each round costs most just then,
// and what is bought in fewer rounds fits better.
const (
	crowd        = 250
	crowdSettles = time.Second
)

// still reports whether a round has found nothing to do and nothing that time alone
// would change soon: nobody waits, nothing is under way, and no node is about to go.
// The next round may then wait until something changes.
func still(r Round) bool {
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
		if !calm(&r.Plan.Verdicts[i]) {
			return false
		}
	}
	return true
}

// calm reports a verdict that only something outside can change, or hours.
func calm(v *plan.Verdict) bool {
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

// Unhurried reports whether fresher word of who holds what would change nothing that
// the last round decided: nobody waits for an instance or a part of a card, and
// nothing is being cut, drained or taken back. Whole cards are counted as the
// scheduler counts them, whoever computes on them.
func (s *State) Unhurried() bool {
	r, ok := s.Last()
	return ok && unhurried(&r)
}

func unhurried(r *Round) bool {
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
		case plan.HoldersUnknown, plan.WaitRepartition, plan.WaitReclaim, plan.RepartitionExhausted:
			if v.Kind == plan.KindPod || v.Kind == plan.KindGang {
				return false
			}
		}
	}
	return true
}

// settle waits for pods that come with the one that woke the loop; false when ctx has
// ended. While more come it waits longer, up to a bound.
func (l *Loop) settle(ctx context.Context) bool {
	if l.o.Settle <= 0 {
		return ctx.Err() == nil
	}
	quiet, bound := time.NewTimer(l.o.Settle), time.NewTimer(l.longest())
	defer quiet.Stop()
	defer bound.Stop()
	first := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-bound.C:
			return true
		case <-quiet.C:
			return true
		case <-l.o.Wake:
			quiet.Reset(max(l.o.Settle/2, l.o.Settle-time.Since(first)))
		}
	}
}

// longest is how long a round settles at the most.
func (l *Loop) longest() time.Duration {
	last, _ := l.State.Last()
	waiting := 0
	for i := range last.Pods {
		if last.Pods[i].Node == "" {
			waiting++
		}
	}
	usual := longSettle * l.o.Settle
	if waiting >= crowd {
		return max(usual, min(crowdSettles, 2*usual))
	}
	return usual
}

// pause is how long to wait for the next round after one that ended like this.
func (l *Loop) pause(err error) time.Duration {
	last, ok := l.State.Last()
	if l.o.Quiet > l.o.Interval && l.o.Changed != nil && err == nil && ok && still(last) {
		return l.o.Quiet
	}
	return l.o.Interval
}
