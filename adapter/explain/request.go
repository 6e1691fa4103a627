package explain

import (
	"context"
	"fmt"
	"net/url"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// asked is one metric of an HPA, of any type.
type asked struct {
	kind      autoscaling.MetricSourceType
	namespace string
	name      string
	selector  labels.Selector
	target    autoscaling.MetricTarget
	object    provider.Object // of type Object
}

// metricOf reads a metric of type Pods, Object or External. If an error comes with a name, the
// HPA controller sends no request for the metric either.
func (w World) metricOf(m autoscaling.MetricSpec) (a asked, err error) {
	a = asked{kind: m.Type, namespace: w.HPA.Namespace, selector: labels.Everything()}
	other := func(name any) error {
		return fmt.Errorf("metrics of type %s (%s) are served by metrics.k8s.io, which is metrics-server and not this adapter: see `kubectl top pods`", m.Type, name)
	}
	id, target := partsOf(m)
	switch {
	case m.Type == autoscaling.ResourceMetricSourceType && m.Resource != nil:
		return a, other(m.Resource.Name)
	case m.Type == autoscaling.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		return a, other(m.ContainerResource.Name)
	case id == nil:
		return a, fmt.Errorf("a metric of type %q needs the field of that name", m.Type)
	case m.Type == autoscaling.ObjectMetricSourceType:
		a.object, err = w.objectOf(m.Object.DescribedObject)
	}
	a.name, a.target = id.Name, *target
	if id.Selector != nil && err == nil {
		var selector labels.Selector
		if selector, err = metav1.LabelSelectorAsSelector(id.Selector); err == nil {
			a.selector = selector
		}
	}
	if err != nil {
		err = fmt.Errorf("metric %s: %w", a.name, err)
	}
	return a, err
}

// partsOf returns the identifier and the target of a metric of type Pods, Object or External; nil
// for another type.
func partsOf(m autoscaling.MetricSpec) (*autoscaling.MetricIdentifier, *autoscaling.MetricTarget) {
	switch {
	case m.Type == autoscaling.PodsMetricSourceType && m.Pods != nil:
		return &m.Pods.Metric, &m.Pods.Target
	case m.Type == autoscaling.ObjectMetricSourceType && m.Object != nil:
		return &m.Object.Metric, &m.Object.Target
	case m.Type == autoscaling.ExternalMetricSourceType && m.External != nil:
		return &m.External.Metric, &m.External.Target
	}
	return nil, nil
}

// objectOf returns the object that the HPA names, in the cluster's preferred version, as the
// controller requests it. If the cluster has no such kind, only the resource is missing from
// it.
func (w World) objectOf(ref autoscaling.CrossVersionObjectReference) (provider.Object, error) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	name := types.NamespacedName{Namespace: w.HPA.Namespace, Name: ref.Name}
	if ref.Kind == "Namespace" {
		name.Name = w.HPA.Namespace // the HPA controller reads only this namespace
	}
	o := provider.Object{Kind: kind.GroupKind(), Ref: provider.Reference(kind, name)}
	mapping, err := w.kinds.RESTMapping(o.Kind)
	if err == nil {
		o.Resource = mapping.Resource
	}
	return o, err
}

// path is the request the HPA controller sends for the metric.
func (a asked) path(version string, pods labels.Selector) string {
	group, of, key := "custom.metrics.k8s.io/"+version, "", "metricLabelSelector"
	q := url.Values{}
	switch {
	case a.kind == autoscaling.ExternalMetricSourceType:
		group, key = "external.metrics.k8s.io/v1beta1", "labelSelector"
	case a.kind == autoscaling.PodsMetricSourceType:
		of = "pods/*/"
		q.Set("labelSelector", pods.String())
	case a.object.Ref.Kind == "Namespace":
		of = "metrics/"
	default:
		of = a.object.Resource.GroupResource().String() + "/" + url.PathEscape(a.object.Ref.Name) + "/"
	}
	if !a.selector.Empty() {
		q.Set(key, a.selector.String())
	}
	path := "/apis/" + group + "/namespaces/" + url.PathEscape(a.namespace) + "/" + of + url.PathEscape(a.name)
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// String names the metric and its target.
func (a asked) String() string {
	s := fmt.Sprintf("%s %s", a.kind, a.name)
	if a.kind == autoscaling.ObjectMetricSourceType {
		s += fmt.Sprintf(" of %s %s", a.object.Ref.Kind, a.object.Ref.Name)
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

// answer reads a table as the adapter's provider does. failure is that of the
// query.
func (w World) answer(ctx context.Context, a asked, t *signal.Table, failure error, now time.Time) (result answer) {
	var err error
	r := w.adapter
	r.Now = func() time.Time { return now }
	switch a.kind {
	case autoscaling.ExternalMetricSourceType:
		result.value, err = r.External(t, a.namespace, a.selector)
	case autoscaling.PodsMetricSourceType:
		var values []provider.PodAnswer
		values, result.pods, err = r.Each(t, a.namespace, w.Selector, a.selector)
		result.Pods = map[string]int64{}
		for _, v := range values {
			result.Pods[v.Pod] = signal.Milli(v.Value)
		}
	default:
		result.value, result.pods, err = r.Object(ctx, t, a.object, a.selector)
	}
	switch {
	case err != nil:
		if t.Rule().Subject == signal.Namespace && len(result.pods) > 0 {
			err = fmt.Errorf("%w; the rule is about namespaces: ask for it as an External metric", err)
		}
		result.Pods, result.Error = nil, provider.Refusal(err, failure)
	case result.Pods == nil:
		result.Values = []int64{signal.Milli(result.value.Value)}
	}
	return result
}
