package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	scaleapi "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// hpaWorld is all that the controller sees: one HPA, its target's scale, the
// pods and metrics of the present step. Reading the scale begins a step.
type hpaWorld struct {
	c       hpaCase
	stop    func()
	handler cache.ResourceEventHandler
	start   time.Time

	mu        sync.Mutex
	hpa       *autoscaling.HorizontalPodAutoscaler
	replicas  int32
	before    int32 // replicas when the step began
	began     time.Duration
	step      int // -1 before the first
	decisions []hpaDecision
}

func newHPAWorld(c hpaCase, stop func()) *hpaWorld {
	hpa := c.HPA.DeepCopy()
	hpa.Namespace, hpa.Name = "ns", "hpa"
	hpa.Spec.ScaleTargetRef = autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "target"}
	return &hpaWorld{c: c, stop: stop, start: time.Now(), hpa: hpa, replicas: c.Replicas, step: -1}
}

func (w *hpaWorld) mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	m.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	return m
}

// next notes what came of the step before and begins another, if there is one.
func (w *hpaWorld) next() bool {
	if w.step >= 0 {
		d := hpaDecision{AtMillis: w.began.Milliseconds(), Current: w.before, Desired: w.replicas}
		for _, c := range w.hpa.Status.Conditions {
			switch c.Type {
			case autoscaling.ScalingActive:
				d.Active = c.Reason
			case autoscaling.AbleToScale:
				d.Able = c.Reason
			case autoscaling.ScalingLimited:
				d.Limited = c.Reason
			case autoscaling.ScaledToZero:
				d.ToZero = string(c.Status)
			}
		}
		for _, m := range w.hpa.Status.CurrentMetrics {
			d.Usage = append(d.Usage, usage(m))
		}
		w.decisions = append(w.decisions, d)
	}
	w.step++
	w.began, w.before = time.Since(w.start), w.replicas
	return w.step < len(w.c.Steps)
}

// usage returns the status' value of a metric in thousandths, -1 if there is
// none.
func usage(m autoscaling.MetricStatus) int64 {
	var current autoscaling.MetricValueStatus
	switch {
	case m.Pods != nil:
		current = m.Pods.Current
	case m.Object != nil:
		current = m.Object.Current
	case m.External != nil:
		current = m.External.Current
	}
	switch {
	case current.Value != nil:
		return current.Value.MilliValue()
	case current.AverageValue != nil:
		return current.AverageValue.MilliValue()
	}
	return -1
}

func (w *hpaWorld) pods() []*v1.Pod {
	s := w.c.Steps[w.step]
	listed := s.Pods
	if s.Each != nil {
		listed = nil
		for i := range w.before {
			listed = append(listed, hpaPod{Name: fmt.Sprintf("p-%d", i), Phase: "Running", Ready: true})
		}
	}
	pods := make([]*v1.Pod, len(listed))
	for i, p := range listed {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: p.Name, Labels: map[string]string{"app": "target"}}}
		pod.Status.Phase = v1.PodPhase(p.Phase)
		ready := v1.ConditionFalse
		if p.Ready {
			ready = v1.ConditionTrue
		}
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: ready}}
		if p.Deleted {
			now := metav1.Now()
			pod.DeletionTimestamp = &now
		}
		pods[i] = pod
	}
	return pods
}

// Scales, Get and Update are the scale subresource.
func (w *hpaWorld) Scales(string) scale.ScaleInterface { return hpaScale{w: w} }

type hpaScale struct {
	scale.ScaleInterface
	w *hpaWorld
}

func (s hpaScale) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*scaleapi.Scale, error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.next() {
		w.stop()
		return nil, errors.New("no more steps")
	}
	return &scaleapi.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "target"},
		Spec:       scaleapi.ScaleSpec{Replicas: w.replicas},
		Status:     scaleapi.ScaleStatus{Replicas: w.replicas, Selector: "app=target"},
	}, nil
}

func (s hpaScale) Update(_ context.Context, _ schema.GroupResource, to *scaleapi.Scale, _ metav1.UpdateOptions) (*scaleapi.Scale, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.replicas = to.Spec.Replicas
	return to, nil
}

// HorizontalPodAutoscalers writes the HPA's status.
func (w *hpaWorld) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return hpaStatus{w: w}
}

type hpaStatus struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	w *hpaWorld
}

func (s hpaStatus) UpdateStatus(_ context.Context, hpa *autoscaling.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscaling.HorizontalPodAutoscaler, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.hpa = s.w.hpa.DeepCopy()
	s.w.hpa.Status = *hpa.Status.DeepCopy()
	return hpa, nil
}

// Events swallows events.
func (w *hpaWorld) Events(string) coreclient.EventInterface { return hpaEvents{} }

type hpaEvents struct{ coreclient.EventInterface }

func (hpaEvents) CreateWithEventNamespace(e *v1.Event) (*v1.Event, error)          { return e, nil }
func (hpaEvents) UpdateWithEventNamespace(e *v1.Event) (*v1.Event, error)          { return e, nil }
func (hpaEvents) PatchWithEventNamespace(e *v1.Event, _ []byte) (*v1.Event, error) { return e, nil }
func (hpaEvents) CreateWithEventNamespaceWithContext(_ context.Context, e *v1.Event) (*v1.Event, error) {
	return e, nil
}

func (hpaEvents) UpdateWithEventNamespaceWithContext(_ context.Context, e *v1.Event) (*v1.Event, error) {
	return e, nil
}

func (hpaEvents) PatchWithEventNamespaceWithContext(_ context.Context, e *v1.Event, _ []byte) (*v1.Event, error) {
	return e, nil
}

// hpaInformer and hpaPods are informers that are always in step.
type hpaInformer struct {
	cache.SharedIndexInformer
	w *hpaWorld
}

func (i hpaInformer) Informer() cache.SharedIndexInformer { return i }

func (i hpaInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	i.w.handler = h
	return nil, nil
}

func (i hpaInformer) HasSynced() bool { return true }

func (i hpaInformer) Lister() autoscalinglisters.HorizontalPodAutoscalerLister {
	return hpaLister{w: i.w}
}

type hpaLister struct {
	autoscalinglisters.HorizontalPodAutoscalerLister
	autoscalinglisters.HorizontalPodAutoscalerNamespaceLister
	w *hpaWorld
}

func (l hpaLister) List(labels.Selector) ([]*autoscaling.HorizontalPodAutoscaler, error) {
	return nil, errors.New("listing HPAs is not implemented")
}

func (l hpaLister) HorizontalPodAutoscalers(string) autoscalinglisters.HorizontalPodAutoscalerNamespaceLister {
	return l
}

func (l hpaLister) Get(string) (*autoscaling.HorizontalPodAutoscaler, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.hpa, nil
}

type hpaPods struct {
	cache.SharedIndexInformer
	w *hpaWorld
}

func (p hpaPods) Informer() cache.SharedIndexInformer { return p }
func (p hpaPods) HasSynced() bool                     { return true }
func (p hpaPods) Lister() corelisters.PodLister       { return hpaPodLister{w: p.w} }

type hpaPodLister struct {
	corelisters.PodLister
	corelisters.PodNamespaceLister
	w *hpaWorld
}

func (l hpaPodLister) Pods(string) corelisters.PodNamespaceLister { return l }

func (l hpaPodLister) List(labels.Selector) ([]*v1.Pod, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.pods(), nil
}

// hpaMetrics is the metrics APIs' client.
type hpaMetrics struct{ w *hpaWorld }

func (m hpaMetrics) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errors.New("resource metrics are no business of ours")
}

// answer returns what the present step says about the metric called m<i>.
func (m hpaMetrics) answer(name string) (hpaMetric, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	var i int
	s := m.w.c.Steps[m.w.step]
	if _, err := fmt.Sscan(strings.TrimPrefix(name, "m"), &i); err != nil || i < 0 || i >= len(s.Metrics) {
		return hpaMetric{}, fmt.Errorf("no metric is called %s", name)
	}
	a := s.Metrics[i]
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	if s.Each != nil && a.Values == nil {
		a.Pods = map[string]int64{}
		for i := range m.w.before {
			a.Pods[fmt.Sprintf("p-%d", i)] = *s.Each + int64(i)
		}
	}
	return a, nil
}

func (m hpaMetrics) GetRawMetric(name, _ string, _, _ labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	a, err := m.answer(name)
	if err == nil && len(a.Pods) == 0 {
		err = errors.New("no metrics returned from custom metrics API") // as the real client says
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	info := metrics.PodMetricsInfo{}
	for pod, v := range a.Pods {
		info[pod] = metrics.PodMetric{Value: v}
	}
	return info, time.Now(), nil
}

func (m hpaMetrics) GetObjectMetric(name, _ string, _ *autoscaling.CrossVersionObjectReference, _ labels.Selector) (int64, time.Time, error) {
	a, err := m.answer(name)
	if err == nil && len(a.Values) != 1 {
		err = errors.New("an object has one value")
	}
	if err != nil {
		return 0, time.Time{}, err
	}
	return a.Values[0], time.Now(), nil
}

func (m hpaMetrics) GetExternalMetric(name, _ string, _ labels.Selector) ([]int64, time.Time, error) {
	a, err := m.answer(name)
	if err == nil && len(a.Values) == 0 {
		err = errors.New("no metrics returned from external metrics API")
	}
	return a.Values, time.Now(), err
}
