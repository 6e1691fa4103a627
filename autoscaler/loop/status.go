package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
)

// messageEvery is the least interval between writes of a status in which only the
// message changed, such as a remaining time ("for 40s more").
const messageEvery = 30 * time.Second

// Conditions of a pool.
const (
	conditionReady = "Ready"
	conditionValid = "Valid"
	// conditionForeign is set only on a pool that another autoscaler also scales, or in which it made nodes.
	conditionForeign = pools.ReasonForeign
)

// statuses writes the status of every pool that changed.
func (p *ClusterPublisher) statuses(ctx context.Context, r Reconcile) error {
	var list v1alpha1.GPUNodePoolList
	if err := p.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // each is copied before it is changed
		return fmt.Errorf("listing GPUNodePools: %w", err)
	}
	found, unused := poolFindings(r), unusedGPUs(r)
	before := p.decisions
	p.decisions = make(map[types.UID][]v1alpha1.Decision, len(list.Items))
	var errs []error
	for i := range list.Items {
		pool := &list.Items[i]
		next := pool.DeepCopy()
		if decided, ok := before[pool.UID]; ok {
			next.Status.LastDecisions = decided
		}
		if f, ok := found[pool.Name]; ok {
			f.write(next)
			setDecisions(next, f.verdict, r.Results, r.Now)
			setLearned(next, r.Learned[pool.Name])
			setRemarks(next, r.GrowOnly[pool.Name], unused[pool.Name])
			setForeign(next, r.Foreign[pool.Name])
		} else if err := r.Invalid[pool.Name]; err != nil {
			setInvalid(next, err)
		} else {
			continue // created after the snapshot
		}
		p.decisions[pool.UID] = next.Status.LastDecisions
		key := "pool " + pool.Name
		if worthWriting(pool, next, r.Now.Sub(p.written[key]) >= messageEvery) {
			errs = append(errs, p.patch(ctx, key, r.Now, pool, next)) // without status.plannerState, which the Store writes
		}
	}
	return errors.Join(errs...)
}

// worthWriting reports whether a status has changed. A change of the message alone counts only while messages are due.
func worthWriting(before, after *v1alpha1.GPUNodePool, messages bool) bool {
	plain := after.Status
	if !messages {
		plain.Message = before.Status.Message
	}
	return !equality.Semantic.DeepEqual(before.Status, plain)
}

// finding is a reconcile's result for one pool.
type finding struct {
	pool  plan.Pool
	ready int
	// operations are the nodes that are being repartitioned or drained.
	operations int
	verdict    plan.Verdict
}

func poolFindings(r Reconcile) map[string]*finding {
	out := map[string]*finding{}
	ready := readyByPool(r.Nodes)
	for _, pool := range r.Pools {
		out[pool.Name] = &finding{pool: pool, ready: ready[pool.Name]}
	}
	for i := range r.Nodes {
		if n := &r.Nodes[i]; out[n.Pool] != nil && (n.Operation != nil || n.Drain != nil) {
			out[n.Pool].operations++
		}
	}
	for _, v := range r.Plan.Verdicts {
		if f := out[v.Subject]; f != nil && v.Kind == plan.KindPool {
			f.verdict = v
		}
	}
	for _, result := range r.Results { // the snapshot is from before the actions
		f := out[result.Action.Pool]
		switch {
		case f == nil || result.Outcome != act.Done:
		case result.Action.Verb == plan.Repartition:
			f.operations++
		case result.Action.Verb == plan.ScaleUp:
			f.pool.Target = max(f.pool.Target, result.Action.To)
		}
	}
	return out
}

func (f *finding) write(pool *v1alpha1.GPUNodePool) {
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
	status, reason, message := metav1.ConditionTrue, "MinimumReady", ""
	switch {
	case f.pool.Fixed && s.Size == 0:
		status, reason = metav1.ConditionFalse, "NoNodes"
		message = fmt.Sprintf("no node has the label %s=%s; label the nodes of the pool", v1alpha1.NodePoolLabel, pool.Name)
	case f.pool.Fixed && s.Ready < s.Size:
		status, reason, message = metav1.ConditionFalse, "NotAllReady", fmt.Sprintf("%d of %d nodes are ready", s.Ready, s.Size)
	case f.pool.Fixed:
		reason = "AllReady"
	case s.Ready < int32(f.pool.Min):
		status, reason, message = metav1.ConditionFalse, "BelowMinimum", fmt.Sprintf("%d nodes are ready, and the minimum is %d", s.Ready, f.pool.Min)
	}
	setCondition(pool, conditionReady, status, reason, message)
}

// setInvalid writes why a pool is not valid. It keeps the counts, which are unknown.
func setInvalid(pool *v1alpha1.GPUNodePool, err error) {
	pool.Status.ObservedGeneration = pool.Generation
	reason := pools.ReasonOf(err)
	pool.Status.Reason, pool.Status.Message = reason, err.Error()
	setCondition(pool, conditionValid, metav1.ConditionFalse, reason, err.Error())
	if reason != pools.ReasonForeign {
		err = nil
	}
	setForeign(pool, err)
}

// setForeign sets conditionForeign; it removes the condition if err is nil.
func setForeign(pool *v1alpha1.GPUNodePool, err error) {
	setWhile(err != nil, pool, conditionForeign, pools.ReasonForeign, fmt.Sprint(err))
}

// setWhile sets a condition that a pool has only while it is true.
func setWhile(is bool, pool *v1alpha1.GPUNodePool, kind, reason, message string) {
	if !is {
		meta.RemoveStatusCondition(&pool.Status.Conditions, kind)
		return
	}
	setCondition(pool, kind, metav1.ConditionTrue, reason, message)
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

// Conditions that a pool has only while they are true.
const (
	// conditionGrowOnly: the spec allows scale-down, and the provider cannot do it.
	conditionGrowOnly = "GrowOnly"
	// conditionUnused: GPUs of the pool are allocated and have been idle for long.
	conditionUnused = "UnusedGPUs"
)

// unusedNamed bounds the GPUs that a condition names.
const unusedNamed = 5

// setRemarks sets or removes conditionGrowOnly and conditionUnused.
func setRemarks(pool *v1alpha1.GPUNodePool, growOnly bool, unused []string) {
	ref := cmp.Or(pool.Spec.Provider.Scale, &v1alpha1.ScaleProvider{})
	setWhile(growOnly && ref.Kind != "" && !pool.Spec.ScaleDown.Disabled, pool, conditionGrowOnly, "TargetUnnamed", fmt.Sprintf(
		"spec.provider.scale: %s %s has replicas but no way to select the node to remove, so the pool scales up and never down; "+
			"refer to a resource of Cluster API or Karpenter, or set spec.scaleDown.disabled", ref.Kind, ref.Name))
	setWhile(len(unused) > 0, pool, conditionUnused, string(plan.GPUUnused), fmt.Sprintf(
		"allocated and idle for an hour or more: %s; ask the owners of the pods, or set spec.reclaimIdle of their GPUQuota", text.Several(unused, unusedNamed)))
}

// unusedGPUs lists, by pool, the GPUs that are allocated and idle.
func unusedGPUs(r Reconcile) map[string][]string {
	pools := map[string]string{}
	for i := range r.Nodes {
		pools[r.Nodes[i].Name] = r.Nodes[i].Pool
	}
	out := map[string][]string{}
	for _, v := range r.Plan.Verdicts {
		if v.Kind != plan.KindGPU || v.Reason != plan.GPUUnused {
			continue
		}
		node := v.Subject[:max(0, strings.LastIndexByte(v.Subject, '/'))]
		if pool := pools[node]; pool != "" {
			out[pool] = append(out[pool], v.Subject)
		}
	}
	return out
}

// conditionLimited is true while a limit keeps a pool from meeting its demand, like
// the condition of the same name of an HPA.
const conditionLimited = "ScalingLimited"

// limits are the reasons of a pool's verdict that keep it from scaling up.
var limits = []plan.Reason{plan.PoolAtMax, plan.BackingOff, plan.Frozen, plan.BoundReached, plan.TooManyUnready, plan.NodeSick}

// sameDecision is how long the same failed decision is not listed again.
const sameDecision = 10 * time.Minute

// maxDecisionMessage bounds the message of a decision in the status, in bytes.
const maxDecisionMessage = 512

// setDecisions writes the pool's last actions, newest first, and conditionLimited. The
// condition's message has no numbers, so that it is rarely written.
func setDecisions(pool *v1alpha1.GPUNodePool, verdict plan.Verdict, results []act.Result, now time.Time) {
	status, reason := metav1.ConditionFalse, cmp.Or(string(verdict.Reason), "Unknown")
	message := "no limit keeps the pool from meeting its demand"
	if slices.Contains(limits, verdict.Reason) {
		status, message = metav1.ConditionTrue, explain.Meaning(verdict.Reason)
	}
	setCondition(pool, conditionLimited, status, reason, message)
	list := slices.Clone(pool.Status.LastDecisions)
	for _, r := range results {
		if r.Action.Pool != pool.Name || r.Outcome != act.Done && r.Outcome != act.Failed {
			continue
		}
		d := decisionOf(r, now)
		if !slices.ContainsFunc(list, func(old v1alpha1.Decision) bool {
			return old.Action == d.Action && old.On == d.On && old.Reason == d.Reason && old.Failed && d.Failed && now.Sub(old.Time.Time) < sameDecision
		}) {
			list = slices.Insert(list, 0, d)
		}
	}
	pool.Status.LastDecisions = list[:min(len(list), v1alpha1.MaxDecisions)]
}

func decisionOf(r act.Result, now time.Time) v1alpha1.Decision {
	a := r.Action
	d := v1alpha1.Decision{
		Time: metav1.NewTime(now.Truncate(time.Second)), Action: string(a.Verb), On: cmp.Or(a.Pod, a.Node),
		Reason: string(a.Reason), Message: a.Detail, Failed: r.Outcome == act.Failed,
	}
	switch {
	case r.Err != nil:
		d.Message = fmt.Sprintf("%v; %s", r.Err, a.Detail)
	case a.Verb == plan.ScaleUp:
		d.Message = fmt.Sprintf("%d→%d: %s", a.From, a.To, a.Detail)
	}
	d.Message = text.Short(d.Message, maxDecisionMessage)
	return d
}
