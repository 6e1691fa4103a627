package explain

import (
	"context"
	"fmt"
	"net/url"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
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

// metricOf reads a metric of type Pods, Object or External.
func metricOf(m autoscaling.MetricSpec, namespace string) (asked, error) {
	a := asked{kind: m.Type, namespace: namespace}
	var id autoscaling.MetricIdentifier
	other := func(name any) error {
		return fmt.Errorf("metrics of type %s (%s) are served by metrics.k8s.io, which is metrics-server and not this adapter: see `kubectl top pods`", m.Type, name)
	}
	switch {
	case m.Type == autoscaling.PodsMetricSourceType && m.Pods != nil:
		id, a.target = m.Pods.Metric, m.Pods.Target
	case m.Type == autoscaling.ObjectMetricSourceType && m.Object != nil:
		id, a.target, a.object = m.Object.Metric, m.Object.Target, objectOf(m.Object.DescribedObject, namespace)
	case m.Type == autoscaling.ExternalMetricSourceType && m.External != nil:
		id, a.target = m.External.Metric, m.External.Target
	case m.Type == autoscaling.ResourceMetricSourceType && m.Resource != nil:
		return a, other(m.Resource.Name)
	case m.Type == autoscaling.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		return a, other(m.ContainerResource.Name)
	default:
		return a, fmt.Errorf("a metric of type %q needs the field of that name", m.Type)
	}
	a.name, a.selector = id.Name, labels.Everything()
	if id.Selector != nil {
		var err error
		if a.selector, err = metav1.LabelSelectorAsSelector(id.Selector); err != nil {
			return a, fmt.Errorf("metric %s: selector: %w", a.name, err)
		}
	}
	return a, nil
}

// objectOf is the object that an HPA of a namespace names.
func objectOf(ref autoscaling.CrossVersionObjectReference, namespace string) provider.Object {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	name := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	if ref.Kind == "Namespace" {
		name.Name = namespace // the HPA controller reads only this namespace
	}
	return provider.Object{Resource: resource, Kind: kind.GroupKind(), Ref: provider.Reference(kind, name)}
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

// answer reads a table as the adapter's provider does. failure is Prometheus'.
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
			result.Pods[v.Pod], _ = signal.Milli(v.Value)
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
		milli, _ := signal.Milli(result.value.Value)
		result.Values = []int64{milli}
	}
	return result
}
