package loop

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Waker turns pods that the scheduler cannot place into wake-ups. However many
// there are, one is enough until the loop has taken it.
type Waker struct{ c chan struct{} }

// NewWaker returns a Waker.
func NewWaker() *Waker { return &Waker{c: make(chan struct{}, 1)} }

// C is for Options.Wake.
func (w *Waker) C() <-chan struct{} { return w.c }

// Handler is for a Pod informer.
func (w *Waker) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if stuck(obj) {
				w.wake()
			}
		},
		UpdateFunc: func(before, after any) {
			if stuck(after) && !stuck(before) {
				w.wake()
			}
		},
	}
}

func (w *Waker) wake() {
	select {
	case w.c <- struct{}{}:
	default:
	}
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
