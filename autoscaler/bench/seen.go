package main

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// life is what became of a pod, by the times at which a watch showed it.
type life struct {
	name                    string
	cards                   int // asked for
	pending, bound, running time.Time
}

// seen watches pods and nodes.
type seen struct {
	cards *exporters // told who holds what

	mu    sync.Mutex
	pods  map[string]*life // by name
	ready map[string]bool  // nodes
	made  int              // Node objects ever seen
}

func newSeen(e *exporters) *seen {
	return &seen{cards: e, pods: map[string]*life{}, ready: map[string]bool{}}
}

// watch returns once what is there has been seen.
func (s *seen) watch(ctx context.Context, k kubernetes.Interface) error {
	f := informers.NewSharedInformerFactory(k, 0)
	pods, nodes := f.Core().V1().Pods().Informer(), f.Core().V1().Nodes().Informer()
	for _, each := range []struct {
		informer cache.SharedIndexInformer
		saw      func(o any)
		lost     func(o any)
	}{{pods, s.sawPod, s.lostPod}, {nodes, s.sawNode, s.lostNode}} {
		if _, err := each.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: each.saw, UpdateFunc: func(_, o any) { each.saw(o) }, DeleteFunc: each.lost,
		}); err != nil {
			return err
		}
	}
	f.Start(ctx.Done())
	for _, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *seen) sawPod(o any) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Namespace != work {
		return
	}
	now := time.Now()
	s.mu.Lock()
	l := s.pods[p.Name]
	if l == nil {
		q := p.Spec.Containers[0].Resources.Requests[whole]
		l = &life{name: p.Name, cards: int(q.Value())}
		s.pods[p.Name] = l
	}
	binds := p.Spec.NodeName != "" && l.bound.IsZero()
	if binds {
		l.bound = now
	}
	if p.Status.Phase == corev1.PodRunning && l.running.IsZero() {
		l.running = now
	}
	if l.pending.IsZero() && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	}) {
		l.pending = now
	}
	s.mu.Unlock()
	if binds {
		s.cards.hold(p)
	}
}

func (s *seen) lostPod(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	p, ok := o.(*corev1.Pod)
	if !ok || p.Namespace != work {
		return
	}
	s.mu.Lock()
	delete(s.pods, p.Name)
	s.mu.Unlock()
	s.cards.release(p)
}

func (s *seen) sawNode(o any) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	s.mu.Lock()
	ready, known := s.ready[n.Name]
	if !known {
		s.made++
	}
	s.ready[n.Name] = ready || isReady(n)
	s.mu.Unlock()
	if !known {
		s.cards.add(n)
	}
}

func (s *seen) lostNode(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if n, ok := o.(*corev1.Node); ok {
		s.mu.Lock()
		delete(s.ready, n.Name)
		s.mu.Unlock()
		s.cards.remove(n.Name)
	}
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// lives returns copies of the pods whose names begin so.
func (s *seen) lives(of func(name string) bool) []life {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []life
	for _, l := range s.pods {
		if of(l.name) {
			out = append(out, *l)
		}
	}
	return out
}

// nodes counts those there are, and of those the ready ones.
func (s *seen) nodes() (all, ready int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ok := range s.ready {
		if ok {
			ready++
		}
	}
	return len(s.ready), ready
}
