package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// bootsWithin is how long after its creation a node that is not ready may become ready
// at any moment.
const bootsWithin = time.Hour

// longSettle bounds the time that a reconcile settles while more pods become pending, in
// multiples of Settle. Scaling up once for a burst packs better than in several waves.
const longSettle = 3

// maxSettle bounds the time that a reconcile settles after several in a row that pods woke: the
// scheduler reports a burst pod by pod, each reconcile is expensive, and nodes added in fewer
// reconciles pack better. The provider is called within two seconds all the same.
const maxSettle = 1800 * time.Millisecond

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
// come, up to a bound. The bound grows with each reconcile in a row that pods woke. It returns
// false when ctx has ended.
func (l *Loop) settle(ctx context.Context) bool {
	if l.o.Settle <= 0 {
		return ctx.Err() == nil
	}
	usual := longSettle * l.o.Settle
	bound := max(usual, min(time.Duration(l.waves)*usual, maxSettle))
	least := l.o.Settle
	if l.waves > 0 {
		least = bound
	}
	settled, over := time.NewTimer(least), time.NewTimer(bound)
	defer settled.Stop()
	defer over.Stop()
	first := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return true
		case <-settled.C:
			return true
		case <-l.o.Waker.urgent:
			settled.Reset(max(l.o.Settle/2, least-time.Since(first)))
		}
	}
}

// unnoticed is the number of idle intervals between reconciles where no provider gives notices of interruptions. Such
// notices come two minutes before the interruption. What else a reconcile finds without a change in the cluster, such
// as a sick GPU, can wait that long.
const unnoticed = 3

// waiting is the number of intervals between reconciles while pods are pending for nodes that boot, for a limit or for
// a cooldown. Only a pod that becomes unschedulable, or a changed spec of a pool or quota, ends that time early. Pods
// may be pending for hours, and each reconcile reads the whole cluster. In a large cluster some pod or node changes
// every second, as do all that come after a scale-up.
const waiting = 5

// maxRetry bounds the time between failed reconciles, which doubles with each. Their cause may last, such as an API
// server that is down or a CRD that is missing.
const maxRetry = 10 * time.Second

// pause is the time between the last reconcile, which returned err, and the next. isIdle: a change ends it.
func (l *Loop) pause(err error) (pause time.Duration, isIdle bool) {
	last, ok := l.State.Last()
	switch {
	case err != nil:
		return max(l.o.Interval, min(l.o.Interval<<min(l.failures-1, 4), maxRetry)), false
	case l.o.IdleInterval <= l.o.Interval || !ok:
		return l.o.Interval, false
	case len(last.Plan.Actions) > 0 || len(last.Results) > 0 || !unhurried(&last):
		return l.o.Interval, false
	case !idle(last):
		return min(waiting*l.o.Interval, l.o.IdleInterval), false
	case last.Notices:
		return l.o.IdleInterval, true
	}
	return unnoticed * l.o.IdleInterval, true
}

// Waker turns changes in the cluster into reconciles. Changes before the loop takes the
// token are merged into one.
type Waker struct{ urgent, changed chan struct{} }

// NewWaker returns a Waker.
func NewWaker() *Waker {
	return &Waker{urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Wake requests a reconcile at once. It never blocks.
func (w *Waker) Wake() { signal(w.urgent) }

// Stir ends the idle interval, since an input of decisions has changed. It never blocks.
func (w *Waker) Stir() { signal(w.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Pods is for a Pod informer: an unschedulable pod is urgent, any other change of a
// pod that requests devices ends the idle interval.
func (w *Waker) Pods() cache.ResourceEventHandler {
	return changes(func(before, after *corev1.Pod) {
		if after != nil && unschedulable(after) && (before == nil || !unschedulable(before)) {
			w.Wake()
		}
		if requestsDevices(cmp.Or(after, before)) && (before == nil || after == nil || podChanged(before, after)) {
			w.Stir()
		}
	})
}

// Nodes is for a Node informer. Heartbeats are not changes.
func (w *Waker) Nodes() cache.ResourceEventHandler {
	return changes(func(before, after *corev1.Node) {
		if before == nil || after == nil || nodeChanged(before, after) {
			w.Stir()
		}
	})
}

// Specs is for informers of GPUNodePools and GPUQuotas: a changed spec is urgent, the
// status is our own.
func (w *Waker) Specs() cache.ResourceEventHandler {
	return changes(func(before, after client.Object) {
		if before == nil || after == nil || before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
			w.Wake()
		}
	})
}

// changes calls do with an object before and after a change. before is nil for a new object, after for a deleted one.
func changes[T client.Object](do func(before, after T)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if after, ok := o.(T); ok {
				do(none, after)
			}
		},
		UpdateFunc: func(was, is any) {
			before, had := was.(T)
			if after, ok := is.(T); ok && had {
				do(before, after)
			}
		},
		DeleteFunc: func(o any) {
			if gone, missed := o.(cache.DeletedFinalStateUnknown); missed {
				o = gone.Obj
			}
			if before, ok := o.(T); ok {
				do(before, none)
			}
		},
	}
}

// requestsDevices reports whether a pod requests any extended resource or claim.
func requestsDevices(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || len(kube.ExtendedRequests(p)) > 0
}

func podChanged(a, b *corev1.Pod) bool {
	return a.Generation != b.Generation || a.Spec.NodeName != b.Spec.NodeName || a.Status.Phase != b.Status.Phase ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() || len(a.Spec.SchedulingGates) != len(b.Spec.SchedulingGates) ||
		unschedulable(a) != unschedulable(b) || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations)
}

func nodeChanged(a, b *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(a.Spec, b.Spec) || kube.NodeReady(a) != kube.NodeReady(b) || a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
		!maps.Equal(a.Labels, b.Labels) || annotationsChanged(a.Annotations, b.Annotations) || annotationsChanged(b.Annotations, a.Annotations) ||
		!equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// annotationsChanged reports whether an annotation of gpuscale's in a is another one, or none, in b. Those that are
// written again and again can wait for the idle interval: an agent's report, and others' such as a time of HAMi's device
// plugin every 30 s (2.9, hami.io/node-handshake).
func annotationsChanged(a, b map[string]string) bool {
	for key, text := range a {
		if strings.HasPrefix(key, "gpuscale.io/") && key != contract.LayoutAnnotation && b[key] != text {
			return true
		}
	}
	return false
}

// unschedulable reports whether the scheduler has found no node for a pod.
func unschedulable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
