package compat

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// GetMetricByName answers for one object.
func (p *Provider) GetMetricByName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector k8slabels.Selector) (*custom_metrics.MetricValue, error) {
	r, t := p.lookup(info)
	if t == nil {
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
	return v.value(info.Metric, ref, selector, a), nil
}

// GetMetricBySelector answers for each object that the selector matches and
// that has a usable value.
func (p *Provider) GetMetricBySelector(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.CustomMetricInfo, metricSelector k8slabels.Selector) (*custom_metrics.MetricValueList, error) {
	r, t := p.lookup(info)
	if t == nil {
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
		list.Items = append(list.Items, *v.value(info.Metric, ref, metricSelector, a))
	}
	if len(list.Items) == 0 {
		return nil, v.none(t, subject, why)
	}
	return list, nil
}

// named returns the objects that a selector matches: pods from memory, others
// from the API server. No autoscaler requests others by selector.
func (p *Provider) named(ctx context.Context, info cma.CustomMetricInfo, namespace string, selector k8slabels.Selector) ([]string, error) {
	gvr, err := p.mapper.ResourceFor(info.GroupResource.WithVersion(""))
	if err != nil {
		return nil, provider.NotFound("no resource is called %s", info.GroupResource)
	}
	if gvr.Group == "" && gvr.Resource == "pods" {
		if err := p.pods.Ready(); err != nil {
			return nil, unavailable("%v", err)
		}
		return p.pods.Select(namespace, selector), nil
	}
	names, err := p.objects.Names(ctx, gvr, namespace, selector)
	if err != nil {
		return nil, internal("listing %s: %v", info.GroupResource, err)
	}
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
	gvr, err := p.mapper.ResourceFor(info.GroupResource.WithVersion(""))
	if err != nil {
		return custom_metrics.ObjectReference{}, provider.NotFound("no resource is called %s", info.GroupResource)
	}
	gvk, err := p.mapper.KindFor(gvr)
	if err != nil {
		return custom_metrics.ObjectReference{}, provider.NotFound("no kind is known for %s", info.GroupResource)
	}
	return custom_metrics.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: name.Namespace, Name: name.Name,
	}, nil
}

func (v view) value(metric string, ref custom_metrics.ObjectReference, selector k8slabels.Selector, a answer) *custom_metrics.MetricValue {
	m := &custom_metrics.MetricValue{
		DescribedObject: ref,
		Metric:          custom_metrics.MetricIdentifier{Name: metric},
		Timestamp:       metav1.NewTime(a.at),
		WindowSeconds:   v.plan.seconds(),
		Value:           quantity(a.value),
	}
	if !selector.Empty() {
		// Greater-than and less-than, which have no such form, were refused.
		m.Metric.Selector, _ = metav1.ParseToLabelSelector(selector.String())
	}
	return m
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
