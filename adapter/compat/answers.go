package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// GetMetricByName answers for one object.
func (p *Provider) GetMetricByName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector k8slabels.Selector) (*custom_metrics.MetricValue, error) {
	r, t := p.lookup(info)
	switch {
	case t == nil && p.elsewhere(info.Metric):
		return p.Other.GetMetricByName(ctx, name, info, selector)
	case t == nil:
		return nil, p.unknown(info.Metric)
	}
	within := name.Namespace
	if t.namespace == t.object {
		within = name.Name
	}
	v, err := p.ask(ctx, r, t, selector, within, []string{name.Name})
	if err != nil {
		return nil, err
	}
	a, err := v.table.object(v.key(name.Namespace, name.Name), p.now(), p.opts.MaxAge.Duration)
	if err != nil {
		return nil, v.none(t, fmt.Sprintf("%s %s", info.GroupResource, name), err)
	}
	ref, err := p.reference(info, name)
	if err != nil {
		return nil, err
	}
	return provider.Value(info.Metric, ref, selector, a.at, v.plan.seconds(), quantity(a.value)), nil
}

// GetMetricBySelector answers for each object that the selector matches and
// that has a usable value.
func (p *Provider) GetMetricBySelector(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.CustomMetricInfo, metricSelector k8slabels.Selector) (*custom_metrics.MetricValueList, error) {
	r, t := p.lookup(info)
	switch {
	case t == nil && p.elsewhere(info.Metric):
		return p.Other.GetMetricBySelector(ctx, namespace, selector, info, metricSelector)
	case t == nil:
		return nil, p.unknown(info.Metric)
	}
	objects, err := p.named(ctx, info, namespace, selector)
	if err != nil {
		return nil, err
	}
	subject := fmt.Sprintf("%d %s in namespace %q matching %q", len(objects), info.GroupResource, namespace, selector)
	if len(objects) == 0 {
		return nil, provider.NotFound("%s: %s", t.rule.ID, subject)
	}
	v, err := p.ask(ctx, r, t, metricSelector, namespace, objects)
	if err != nil {
		return nil, err
	}
	list := &custom_metrics.MetricValueList{Items: make([]custom_metrics.MetricValue, 0, len(objects))}
	var why error
	for _, name := range objects {
		a, err := v.table.object(v.key(namespace, name), p.now(), p.opts.MaxAge.Duration)
		if err != nil {
			why = err
			continue // left out: the HPA treats the object as missing
		}
		ref, err := p.reference(info, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *provider.Value(info.Metric, ref, metricSelector, a.at, v.plan.seconds(), quantity(a.value)))
	}
	if len(list.Items) == 0 {
		return nil, v.none(t, subject, why)
	}
	return list, nil
}

// GetExternalMetric answers with one item: the sum of the query's series. v0.12.0
// returns an item each, and the HPA sums them.
func (p *Provider) GetExternalMetric(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	r := p.registry.Load()
	t := r.external[info.Metric]
	switch {
	case t == nil && p.elsewhere(info.Metric):
		return p.Other.GetExternalMetric(ctx, namespace, selector, info)
	case t == nil:
		return nil, p.unknown(info.Metric)
	}
	v, err := p.ask(ctx, r, t, selector, namespace, nil)
	if err != nil {
		return nil, err
	}
	k := key{}
	if v.plan.namespace != "" {
		k.namespace = namespace
	}
	a, err := v.table.sum(k, p.now(), p.opts.MaxAge.Duration)
	if err != nil {
		return nil, v.none(t, fmt.Sprintf("namespace %q, selector %q", namespace, selector), err)
	}
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName: info.Metric, MetricLabels: provider.Exactly(selector),
		Timestamp: metav1.NewTime(a.at), WindowSeconds: v.plan.seconds(), Value: quantity(a.value),
	}}}, nil
}

// named returns the objects that a selector matches: pods from memory, others
// from the API server. No autoscaler requests others by selector.
func (p *Provider) named(ctx context.Context, info cma.CustomMetricInfo, namespace string, selector k8slabels.Selector) ([]string, error) {
	gvr, _, err := provider.KindOf(p.Mapper, info.GroupResource)
	if err != nil {
		return nil, err
	}
	if gvr.Group == "" && gvr.Resource == "pods" {
		if err := p.Pods.Ready(); err != nil {
			return nil, provider.Unavailable("%v", err)
		}
		return p.Pods.Select(namespace, selector), nil
	}
	names, err := p.Objects.Names(ctx, gvr, namespace, selector)
	if err != nil {
		return nil, provider.Internal("listing %s: %v", info.GroupResource, err)
	}
	return names, nil
}

// maxObjects bounds the objects one request may list.
const maxObjects = 5_000

var errTooManyObjects = errors.New("more than 5000 objects match; narrow the selector")

// Metadata implements Objects with the API server's metadata.
type Metadata struct{ Client metadata.Interface }

var _ Objects = Metadata{}

// Names implements Objects. The names are sorted.
func (m Metadata) Names(ctx context.Context, resource schema.GroupVersionResource, namespace string, selector k8slabels.Selector) ([]string, error) {
	list, err := m.Client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector.String(), Limit: maxObjects,
	})
	if err != nil {
		return nil, err
	}
	if list.Continue != "" {
		return nil, errTooManyObjects
	}
	names := make([]string, len(list.Items))
	for i, o := range list.Items {
		names[i] = o.Name
	}
	slices.Sort(names)
	return names, nil
}

// key returns an object's key in the view's table.
func (v view) key(namespace, object string) key {
	k := key{object: object}
	if v.plan.namespace != "" && v.plan.namespace != v.plan.object {
		k.namespace = namespace
	}
	return k
}

func (p *Provider) reference(info cma.CustomMetricInfo, name types.NamespacedName) (custom_metrics.ObjectReference, error) {
	_, gvk, err := provider.KindOf(p.Mapper, info.GroupResource)
	return custom_metrics.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: name.Namespace, Name: name.Name,
	}, err
}

// seconds is the API's window: nil for a single sample.
func (p *plan) seconds() *int64 {
	s := int64(p.window.Seconds())
	if s == 0 {
		return nil
	}
	return &s
}

// quantity is in thousandths, truncated like v0.12.0's, except that a value that
// is not zero does not become zero.
func quantity(v float64) resource.Quantity {
	milli := int64(v * 1000)
	switch {
	case milli == 0 && v > 0:
		milli = 1
	case milli == 0 && v < 0:
		milli = -1
	}
	return *resource.NewMilliQuantity(milli, resource.DecimalSI)
}
