package compat

import (
	"context"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// GetMetricByName answers for one object.
func (p *Provider) GetMetricByName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector k8slabels.Selector) (*custom_metrics.MetricValue, error) {
	t := p.lookup(info)
	if t == nil {
		other, err := p.elsewhere(info.Metric, info.GroupResource)
		if err != nil {
			return nil, err
		}
		return other.GetMetricByName(ctx, name, info, selector)
	}
	_, kind, err := provider.KindOf(p.Mapper, info.GroupResource)
	if err != nil {
		return nil, err
	}
	within := name.Namespace
	if t.namespace == t.object {
		within = name.Name
	}
	v, err := p.ask(ctx, t, selector, within, []string{name.Name})
	if err != nil {
		return nil, err
	}
	a, err := v.answer(name.Name, p.now(), fmt.Sprintf("%s %s", info.GroupResource, name))
	if err != nil {
		return nil, v.none(t, err)
	}
	return provider.Value(info.Metric, provider.Reference(kind, name), selector, a.Time, v.plan.window, quantity(a.Value)), nil
}

// GetMetricBySelector answers for each object that the selector matches and
// that has a usable value.
func (p *Provider) GetMetricBySelector(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.CustomMetricInfo, metricSelector k8slabels.Selector) (*custom_metrics.MetricValueList, error) {
	t := p.lookup(info)
	if t == nil {
		other, err := p.elsewhere(info.Metric, info.GroupResource)
		if err != nil {
			return nil, err
		}
		return other.GetMetricBySelector(ctx, namespace, selector, info, metricSelector)
	}
	resource, kind, err := provider.KindOf(p.Mapper, info.GroupResource)
	if err != nil {
		return nil, err
	}
	objects, err := p.named(ctx, resource, namespace, selector)
	if err != nil {
		return nil, err
	}
	subject := fmt.Sprintf("%d %s in namespace %q matching %q", len(objects), info.GroupResource, namespace, selector)
	if len(objects) == 0 {
		return nil, provider.NotFound("%s: %s", t.rule.ID, subject)
	}
	v, err := p.ask(ctx, t, metricSelector, namespace, objects)
	if err != nil {
		return nil, err
	}
	list := &custom_metrics.MetricValueList{Items: make([]custom_metrics.MetricValue, 0, len(objects))}
	var why error
	for _, name := range objects {
		a, err := v.answer(name, p.now(), subject)
		if err != nil {
			why = err
			continue // left out: the HPA treats the object as missing
		}
		ref := provider.Reference(kind, types.NamespacedName{Namespace: namespace, Name: name})
		list.Items = append(list.Items, *provider.Value(info.Metric, ref, metricSelector, a.Time, v.plan.window, quantity(a.Value)))
	}
	if len(list.Items) == 0 {
		return nil, v.none(t, why)
	}
	return list, nil
}

// GetExternalMetric answers with one item: the sum of the query's series. v0.12.0
// returns an item each, and the HPA sums them.
func (p *Provider) GetExternalMetric(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	t := p.registry.Load().external[info.Metric]
	if t == nil {
		other, err := p.elsewhere(info.Metric, schema.GroupResource{})
		if err != nil {
			return nil, err
		}
		return other.GetExternalMetric(ctx, namespace, selector, info)
	}
	v, err := p.ask(ctx, t, selector, namespace, nil)
	if err != nil {
		return nil, err
	}
	a, err := v.answer(namespace, p.now(), fmt.Sprintf("namespace %q, selector %q", namespace, selector))
	if err != nil {
		return nil, v.none(t, err)
	}
	return provider.External(info.Metric, selector, a.Time, v.plan.window, quantity(a.Value)), nil
}

// maxObjects bounds the objects one request may list.
const maxObjects = 5_000

// named returns the objects that a selector matches: pods from memory, others
// from the API server. No autoscaler requests others by selector.
func (p *Provider) named(ctx context.Context, resource schema.GroupVersionResource, namespace string, selector k8slabels.Selector) ([]string, error) {
	if resource.Group == "" && resource.Resource == "pods" {
		if err := p.Pods.Ready(); err != nil {
			return nil, provider.Unavailable("%v", err)
		}
		return p.Pods.Select(namespace, selector), nil
	}
	list, err := p.Objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: maxObjects})
	switch {
	case err != nil:
		return nil, provider.Internal("listing %s: %v", resource.Resource, err)
	case list.Continue != "":
		return nil, provider.Internal("listing %s: more than %d match; narrow the selector", resource.Resource, maxObjects)
	}
	names := make([]string, len(list.Items))
	for i, o := range list.Items {
		names[i] = o.Name
	}
	slices.Sort(names)
	return names, nil
}

// quantity is in thousandths, truncated like v0.12.0's, except that a value that
// is not zero does not become zero.
func quantity(v float64) resource.Quantity {
	milli := int64(v * 1000)
	if milli == 0 && v != 0 {
		milli = int64(math.Copysign(1, v))
	}
	return *resource.NewMilliQuantity(milli, resource.DecimalSI)
}
