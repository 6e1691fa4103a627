package loop

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Waker turns changes in the cluster into reconciles. Changes before the loop takes the
// token are merged into one.
type Waker struct{ urgent, changed chan struct{} }

// NewWaker returns a Waker.
func NewWaker() *Waker {
	return &Waker{urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// C is for Options.Wake.
func (w *Waker) C() <-chan struct{} { return w.urgent }

// Changed is for Options.Changed.
func (w *Waker) Changed() <-chan struct{} { return w.changed }

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

// Handler is for a Pod informer: an unschedulable pod is urgent, any other change of a
// pod that requests devices ends the idle interval.
func (w *Waker) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			p, ok := obj.(*corev1.Pod)
			if ok && unschedulable(p) {
				w.Wake()
			}
			if ok && requestsDevices(p) {
				w.Stir()
			}
		},
		UpdateFunc: updated(func(before, after *corev1.Pod) {
			if unschedulable(after) && !unschedulable(before) {
				w.Wake()
			}
			if requestsDevices(after) && podChanged(before, after) {
				w.Stir()
			}
		}),
		DeleteFunc: func(any) { w.Stir() },
	}
}

// Nodes is for a Node informer. Heartbeats are not changes.
func (w *Waker) Nodes() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.Stir() },
		UpdateFunc: updated(func(before, after *corev1.Node) {
			if nodeChanged(before, after) {
				w.Stir()
			}
		}),
		DeleteFunc: func(any) { w.Stir() },
	}
}

// Specs is for informers of GPUNodePools and GPUQuotas: a changed spec is urgent, the
// status is our own.
func (w *Waker) Specs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.Wake() },
		UpdateFunc: updated(func(before, after client.Object) {
			if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
				w.Wake()
			}
		}),
		DeleteFunc: func(any) { w.Wake() },
	}
}

// updated adapts do to the informer's untyped handler.
func updated[T client.Object](do func(before, after T)) func(before, after any) {
	return func(before, after any) {
		a, okBefore := before.(T)
		if b, okAfter := after.(T); okBefore && okAfter {
			do(a, b)
		}
	}
}

// requestsDevices reports whether a pod requests any extended resource or claim.
func requestsDevices(p *corev1.Pod) bool {
	extended := func(c corev1.Container) bool {
		for name := range c.Resources.Requests {
			if strings.Contains(string(name), "/") {
				return true
			}
		}
		return false
	}
	return len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(p.Spec.Containers, extended) || slices.ContainsFunc(p.Spec.InitContainers, extended)
}

func podChanged(a, b *corev1.Pod) bool {
	return a.Generation != b.Generation || a.Spec.NodeName != b.Spec.NodeName || a.Status.Phase != b.Status.Phase ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() || len(a.Spec.SchedulingGates) != len(b.Spec.SchedulingGates) ||
		unschedulable(a) != unschedulable(b) || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations)
}

func nodeChanged(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable != b.Spec.Unschedulable || a.Spec.ProviderID != b.Spec.ProviderID || readyNode(a) != readyNode(b) ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
		!maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) ||
		!slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(x, y corev1.Taint) bool { return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect }) ||
		!equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

func readyNode(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// unschedulable reports whether the scheduler has found no node for a pod.
func unschedulable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
