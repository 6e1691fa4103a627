package explain

import (
	"context"
	"fmt"
	"net/url"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// asked is one metric of the spec, of any type.
type asked struct {
	kind     autoscaling.MetricSourceType
	name     string
	selector labels.Selector
	target   autoscaling.MetricTarget
	object   autoscaling.CrossVersionObjectReference // of type Object
}

// metricOf reads a metric of type Pods, Object or External.
func metricOf(m autoscaling.MetricSpec) (asked, error) {
	a := asked{kind: m.Type}
	var id autoscaling.MetricIdentifier
	switch {
	case m.Type == autoscaling.PodsMetricSourceType && m.Pods != nil:
		id, a.target = m.Pods.Metric, m.Pods.Target
	case m.Type == autoscaling.ObjectMetricSourceType && m.Object != nil:
		id, a.target, a.object = m.Object.Metric, m.Object.Target, m.Object.DescribedObject
	case m.Type == autoscaling.ExternalMetricSourceType && m.External != nil:
		id, a.target = m.External.Metric, m.External.Target
	case m.Type == autoscaling.ResourceMetricSourceType, m.Type == autoscaling.ContainerResourceMetricSourceType:
		return a, notServed(m)
	default:
		return a, fmt.Errorf("a metric of type %q needs the field of that name", m.Type)
	}
	a.name = id.Name
	var err error
	if a.selector, err = metav1.LabelSelectorAsSelector(id.Selector); err != nil {
		return a, fmt.Errorf("metric %s: selector: %w", a.name, err)
	}
	if id.Selector == nil {
		a.selector = labels.Everything()
	}
	return a, nil
}

func notServed(m autoscaling.MetricSpec) error {
	name := ""
	if m.Resource != nil {
		name = string(m.Resource.Name)
	}
	if m.ContainerResource != nil {
		name = string(m.ContainerResource.Name)
	}
	return fmt.Errorf("metrics of type %s (%s) are served by metrics.k8s.io, which is metrics-server and not this adapter: see `kubectl top pods`", m.Type, name)
}

// path is the request the HPA controller sends for the metric.
func (a asked) path(namespace, version string, pods labels.Selector) string {
	q := url.Values{}
	add := func(key string, s labels.Selector) {
		if s != nil && !s.Empty() {
			q.Set(key, s.String())
		}
	}
	base := "/apis/custom.metrics.k8s.io/" + version + "/namespaces/" + url.PathEscape(namespace)
	name := url.PathEscape(a.name)
	var path string
	switch {
	case a.kind == autoscaling.ExternalMetricSourceType:
		path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + url.PathEscape(namespace) + "/" + name
		add("labelSelector", a.selector)
	case a.kind == autoscaling.PodsMetricSourceType:
		path = base + "/pods/*/" + name
		add("labelSelector", pods)
		add("metricLabelSelector", a.selector)
	case a.object.Kind == "Namespace":
		path = base + "/metrics/" + name
		add("metricLabelSelector", a.selector)
	default:
		path = base + "/" + resourceOf(a.object).GroupResource().String() + "/" + url.PathEscape(a.object.Name) + "/" + name
		add("metricLabelSelector", a.selector)
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// String names the metric and its target.
func (a asked) String() string {
	s := fmt.Sprintf("%s %s", a.kind, a.name)
	if a.kind == autoscaling.ObjectMetricSourceType {
		s += fmt.Sprintf(" of %s %s", a.object.Kind, a.object.Name)
	}
	if !a.selector.Empty() {
		s += " where " + a.selector.String()
	}
	switch {
	case a.target.AverageValue != nil:
		s += ", target " + a.target.AverageValue.String() + " per replica"
	case a.target.Value != nil:
		s += ", target " + a.target.Value.String()
	}
	return s
}

// answer is what the adapter answers to one metric.
type answer struct {
	hpa.Answer
	// value of an Object or External metric, before rounding to thousandths.
	value signal.Answer
	// pods are the names of the counted pods; nil for External.
	pods []string
}

// answer reads a table as the adapter's provider does. failure is Prometheus'.
func (w World) answer(ctx context.Context, a asked, t *signal.Table, failure error, now time.Time) answer {
	var result answer
	var err error
	ns := w.HPA.Namespace
	r := w.answerer()
	r.Now = func() time.Time { return now }
	switch a.kind {
	case autoscaling.ExternalMetricSourceType:
		result.value, err = r.External(t, ns, a.selector)
	case autoscaling.PodsMetricSourceType:
		var values []provider.PodAnswer
		values, result.pods, err = r.Each(t, ns, w.Selector, a.selector)
		result.Pods = map[string]int64{}
		for _, v := range values {
			result.Pods[v.Pod], _ = signal.Milli(v.Value)
		}
	default:
		result.value, result.pods, err = r.Object(ctx, t, a.thing(ns), a.selector)
	}
	if err != nil {
		if t.Rule().Subject == signal.Namespace && len(result.pods) > 0 {
			err = fmt.Errorf("%w; the rule is about namespaces: ask for it as an External metric", err)
		}
		result.Pods, result.Error = nil, provider.Refusal(err, failure)
		return result
	}
	if result.Pods == nil {
		milli, _ := signal.Milli(result.value.Value)
		result.Values = []int64{milli}
	}
	return result
}

// thing is the object that a metric describes.
func (a asked) thing(namespace string) provider.Object {
	o := provider.Object{
		Resource: resourceOf(a.object), Kind: kindOf(a.object),
		Ref: custom_metrics.ObjectReference{Kind: a.object.Kind, Namespace: namespace, Name: a.object.Name},
	}
	if o.Ref.Kind == "Namespace" {
		o.Ref.Name = namespace // the HPA controller reads only this namespace
	}
	return o
}
