package explain

import (
	"fmt"
	"net/url"

	autoscaling "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
