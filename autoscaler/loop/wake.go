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

// Waker turns what happens in the cluster into rounds. However much that is, one
// token is enough until the loop has taken it.
type Waker struct{ urgent, changed chan struct{} }

// NewWaker returns a Waker.
func NewWaker() *Waker {
	return &Waker{urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// C is for Options.Wake.
func (w *Waker) C() <-chan struct{} { return w.urgent }

// Changed is for Options.Changed.
func (w *Waker) Changed() <-chan struct{} { return w.changed }

// Wake asks for a round at once. It never blocks.
func (w *Waker) Wake() { give(w.urgent) }

// Stir tells that something a decision may depend on has changed, so that the next
// round is due after the interval. It never blocks.
func (w *Waker) Stir() { give(w.changed) }

func give(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Handler is for a Pod informer: a pod that the scheduler cannot place is urgent,
// whatever else becomes of pods that hold devices is a change.
func (w *Waker) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if stuck(obj) {
				w.Wake()
			}
			if p, ok := obj.(*corev1.Pod); ok && wantsDevices(p) {
				w.Stir()
			}
		},
		UpdateFunc: func(before, after any) {
			if stuck(after) && !stuck(before) {
				w.Wake()
			}
			a, okBefore := before.(*corev1.Pod)
			b, okAfter := after.(*corev1.Pod)
			if okBefore && okAfter && wantsDevices(b) && podMoved(a, b) {
				w.Stir()
			}
		},
		DeleteFunc: func(any) { w.Stir() },
	}
}

// Nodes is for a Node informer. Heartbeats are no news.
func (w *Waker) Nodes() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.Stir() },
		UpdateFunc: func(before, after any) {
			a, okBefore := before.(*corev1.Node)
			b, okAfter := after.(*corev1.Node)
			if !okBefore || !okAfter || nodeMoved(a, b) {
				w.Stir()
			}
		},
		DeleteFunc: func(any) { w.Stir() },
	}
}

// Specs is for informers of what people write: a new spec is waited for by somebody,
// a new status is our own.
func (w *Waker) Specs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.Wake() },
		UpdateFunc: func(before, after any) {
			a, okBefore := before.(client.Object)
			b, okAfter := after.(client.Object)
			if !okBefore || !okAfter || a.GetGeneration() != b.GetGeneration() || !maps.Equal(a.GetAnnotations(), b.GetAnnotations()) {
				w.Wake()
			}
		},
		DeleteFunc: func(any) { w.Wake() },
	}
}

// wantsDevices reports whether a pod asks for any extended resource or claim.
func wantsDevices(p *corev1.Pod) bool {
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

func podMoved(a, b *corev1.Pod) bool {
	return a.Generation != b.Generation || a.Spec.NodeName != b.Spec.NodeName || a.Status.Phase != b.Status.Phase ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() || len(a.Spec.SchedulingGates) != len(b.Spec.SchedulingGates) ||
		stuck(a) != stuck(b) || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations)
}

func nodeMoved(a, b *corev1.Node) bool {
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

func stuck(obj any) bool {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}
