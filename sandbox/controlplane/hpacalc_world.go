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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	scales "k8s.io/client-go/scale/fake"
	fakes "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// hpaWorld is everything that the controller sees: one HPA, the scale of its target, and the pods and metrics
// of the current step. A step begins when the controller reads the scale.
type hpaWorld struct {
	c          hpaCase
	stop       func()
	hpas, pods cache.Indexer
	start      time.Time

	mu        sync.Mutex
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
	w := &hpaWorld{c: c, stop: stop, start: time.Now(), replicas: c.Replicas, step: -1}
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	w.hpas, w.pods = cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace), cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
	_ = w.hpas.Add(hpa) // an indexer only rejects objects without a name
	return w
}

func (w *hpaWorld) mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	m.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	return m
}

// next records the outcome of the current step, and begins the next one if there is one.
func (w *hpaWorld) next() error {
	if w.step >= 0 {
		hpa := w.hpas.List()[0].(*autoscaling.HorizontalPodAutoscaler)
		d := hpaDecision{AtMillis: w.began.Milliseconds(), Current: w.before, Desired: w.replicas}
		for _, c := range hpa.Status.Conditions {
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
		for _, m := range hpa.Status.CurrentMetrics {
			d.Usage = append(d.Usage, usage(m))
		}
		w.decisions = append(w.decisions, d)
	}
	w.step++
	w.began, w.before = time.Since(w.start), w.replicas
	if w.step == len(w.c.Steps) {
		w.stop()
		return errors.New("no more steps")
	}
	return w.pods.Replace(w.listed(), "")
}

// usage returns the value of a metric in the status, in thousandths; -1 if there is none.
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

// listed returns the pods of the current step.
func (w *hpaWorld) listed() []any {
	s := w.c.Steps[w.step]
	listed := s.Pods
	if s.Each != nil {
		listed = nil
		for i := range w.before {
			listed = append(listed, hpaPod{Name: fmt.Sprintf("p-%d", i), Phase: "Running", Ready: true})
		}
	}
	pods := make([]any, len(listed))
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

// api returns a client that stores the HPA's status and drops Events.
func (w *hpaWorld) api() *fakes.Fake {
	f := &fakes.Fake{}
	f.AddReactor("update", "horizontalpodautoscalers", func(a fakes.Action) (bool, runtime.Object, error) {
		hpa := a.(fakes.UpdateAction).GetObject()
		return true, hpa, w.hpas.Update(hpa)
	})
	return f
}

// hpaInformer is an informer that is always up to date. It starts with one object, or none.
type hpaInformer[Lister any] struct {
	cache.SharedIndexInformer
	first  any
	lister Lister
}

func (i hpaInformer[L]) Informer() cache.SharedIndexInformer { return i }
func (i hpaInformer[L]) Lister() L                           { return i.lister }
func (i hpaInformer[L]) HasSynced() bool                     { return true }

func (i hpaInformer[L]) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	h.OnAdd(i.first, true)
	return nil, nil
}

// scales returns a client of the scale subresource.
func (w *hpaWorld) scales() *scales.FakeScaleClient {
	f := &scales.FakeScaleClient{}
	f.AddReactor("get", "*", func(fakes.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		err := w.next()
		return true, &scaleapi.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "target"},
			Spec:       scaleapi.ScaleSpec{Replicas: w.replicas},
			Status:     scaleapi.ScaleStatus{Replicas: w.replicas, Selector: "app=target"},
		}, err
	})
	f.AddReactor("update", "*", func(a fakes.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		to := a.(fakes.UpdateAction).GetObject().(*scaleapi.Scale)
		w.replicas = to.Spec.Replicas
		return true, to, nil
	})
	return f
}

// hpaMetrics is a client of the metrics APIs.
type hpaMetrics struct{ w *hpaWorld }

func (m hpaMetrics) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errors.New("resource metrics are no business of ours")
}

// answer returns the value of the metric m<i> in the current step.
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
