package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// messageEvery is the least interval between writes of a status in which only the
// message changed, such as a remaining time ("for 40s more").
const messageEvery = 30 * time.Second

// Conditions of a pool.
const (
	conditionReady = "Ready"
	conditionValid = "Valid"
	// conditionForeign is set only on a pool that another autoscaler scales as well.
	conditionForeign = pools.ReasonForeign
)

// statuses writes the status of every pool that changed.
func (p *ClusterPublisher) statuses(ctx context.Context, r Reconcile) error {
	var list v1alpha1.GPUNodePoolList
	if err := p.client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing GPUNodePools: %w", err)
	}
	found, unused := poolFindings(r), unusedGPUs(r)
	var errs []error
	for i := range list.Items {
		pool := &list.Items[i]
		next := pool.DeepCopy()
		if f, ok := found[pool.Name]; ok {
			f.write(next)
			setDecisions(next, f.verdict, r.Results, r.Now)
			setLearned(next, r.Learned[pool.Name])
			setRemarks(next, r.GrowOnly[pool.Name], unused[pool.Name])
		} else if err := r.Invalid[pool.Name]; err != nil {
			setInvalid(next, err)
		} else {
			continue // created after the snapshot
		}
		if !p.worthWriting(pool, next, r.Now) {
			continue
		}
		// The patch leaves out status.plannerState, which the Store writes.
		if err := p.client.Status().Patch(ctx, next, client.MergeFrom(pool)); err != nil {
			errs = append(errs, fmt.Errorf("pool %s: %w", pool.Name, err))
			continue
		}
		p.written[pool.Name] = r.Now
	}
	return errors.Join(errs...)
}

func (p *ClusterPublisher) worthWriting(before, after *v1alpha1.GPUNodePool, now time.Time) bool {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false
	}
	if now.Sub(p.written[before.Name]) >= messageEvery {
		return true
	}
	plain := after.DeepCopy()
	plain.Status.Message = before.Status.Message
	return !equality.Semantic.DeepEqual(before.Status, plain.Status)
}

// finding is a reconcile's result for one pool.
type finding struct {
	pool  plan.Pool
	ready int
	// operations are the nodes that are being repartitioned or drained.
	operations int
	verdict    plan.Verdict
}

func poolFindings(r Reconcile) map[string]finding {
	out := map[string]finding{}
	ready := readyByPool(r.Nodes)
	for _, pool := range r.Pools {
		out[pool.Name] = finding{pool: pool, ready: ready[pool.Name]}
	}
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Operation != nil || n.Drain != nil {
			if f, ok := out[n.Pool]; ok {
				f.operations++
				out[n.Pool] = f
			}
		}
	}
	for _, v := range r.Plan.Verdicts {
		if f, ok := out[v.Subject]; ok && v.Kind == plan.KindPool {
			f.verdict = v
			out[v.Subject] = f
		}
	}
	for _, result := range r.Results {
		// The snapshot is from before the actions.
		if f, ok := out[result.Action.Pool]; ok && result.Action.Verb == plan.Repartition && resultLabel(result.Outcome) == "ok" {
			f.operations++
			out[result.Action.Pool] = f
		}
		if f, ok := out[result.Action.Pool]; ok && result.Action.Verb == plan.ScaleUp && resultLabel(result.Outcome) == "ok" {
			f.pool.Target = max(f.pool.Target, result.Action.To)
			out[result.Action.Pool] = f
		}
	}
	return out
}

func (f finding) write(pool *v1alpha1.GPUNodePool) {
	s := &pool.Status
	s.ObservedGeneration = pool.Generation
	s.Size, s.Target, s.Ready = int32(f.pool.Size), int32(f.pool.Target), int32(f.ready)
	s.Upcoming = max(s.Size, s.Target) - s.Ready
	if f.pool.Fixed { // its target is not a request
		s.Upcoming = 0
	}
	s.Operations = int32(f.operations)
	s.Reason, s.Message = string(f.verdict.Reason), f.verdict.Detail
	setCondition(pool, conditionValid, metav1.ConditionTrue, "Valid", "")
	meta.RemoveStatusCondition(&s.Conditions, conditionForeign)
	switch {
	case f.pool.Fixed && s.Size == 0:
		setCondition(pool, conditionReady, metav1.ConditionFalse, "NoNodes",
			fmt.Sprintf("no node has the label %s=%s; label the nodes of the pool", v1alpha1.NodePoolLabel, pool.Name))
	case f.pool.Fixed && s.Ready < s.Size:
		setCondition(pool, conditionReady, metav1.ConditionFalse, "NotAllReady", fmt.Sprintf("%d of %d nodes are ready", s.Ready, s.Size))
	case f.pool.Fixed:
		setCondition(pool, conditionReady, metav1.ConditionTrue, "AllReady", "")
	case s.Ready >= int32(f.pool.Min):
		setCondition(pool, conditionReady, metav1.ConditionTrue, "MinimumReady", "")
	default:
		setCondition(pool, conditionReady, metav1.ConditionFalse, "BelowMinimum",
			fmt.Sprintf("%d nodes are ready, min is %d", s.Ready, f.pool.Min))
	}
}

// setInvalid writes why a pool is not valid. It keeps the counts, which are unknown.
func setInvalid(pool *v1alpha1.GPUNodePool, err error) {
	pool.Status.ObservedGeneration = pool.Generation
	reason := pools.ReasonOf(err)
	pool.Status.Reason, pool.Status.Message = reason, err.Error()
	setCondition(pool, conditionValid, metav1.ConditionFalse, reason, err.Error())
	if reason == pools.ReasonForeign {
		setCondition(pool, conditionForeign, metav1.ConditionTrue, reason, err.Error())
	} else {
		meta.RemoveStatusCondition(&pool.Status.Conditions, conditionForeign)
	}
}

// setLearned persists what the provider has learned, for the next leader.
func setLearned(pool *v1alpha1.GPUNodePool, l pools.Learned) {
	pool.Status.ReadyAfter, pool.Status.Backoff = nil, nil
	if l.ReadyAfter > 0 {
		pool.Status.ReadyAfter = &metav1.Duration{Duration: l.ReadyAfter.Round(time.Second)}
	}
	if l.Failures > 0 {
		pool.Status.Backoff = &v1alpha1.Backoff{Failures: int32(l.Failures), UntilTime: metav1.NewTime(l.BackoffUntil.Truncate(time.Second))}
	}
}

func setCondition(pool *v1alpha1.GPUNodePool, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: pool.Generation,
	})
}
