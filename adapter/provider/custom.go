package provider

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

func (p *Provider) byName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector labels.Selector) (*custom_metrics.MetricValue, error) {
	if !p.tables.Has(info.Metric) {
		return nil, unknown(info.Metric)
	}
	o, err := p.object(name, info)
	if err != nil {
		return nil, err
	}
	view, err := p.view(ctx, info.Metric, o.namespace())
	if err != nil {
		return nil, err
	}
	a, _, err := p.Object(ctx, view.Table, o, selector)
	if err != nil {
		return nil, missing(view, o.namespace(), selector, err)
	}
	v := value(view.Table.Rule(), o.Ref, selector, a)
	return &v, nil
}

func (p *Provider) bySelector(ctx context.Context, namespace string, selector labels.Selector, info cma.CustomMetricInfo, metricSelector labels.Selector) (*custom_metrics.MetricValueList, error) {
	if info.GroupResource.String() != "pods" {
		return nil, badRequest("only pods can be asked for by selector, not %s", info.GroupResource)
	}
	view, err := p.view(ctx, info.Metric, namespace)
	if err != nil {
		return nil, err
	}
	values, _, err := p.Each(view.Table, namespace, selector, metricSelector)
	if err != nil {
		return nil, missing(view, namespace, metricSelector, err)
	}
	list := &custom_metrics.MetricValueList{Items: make([]custom_metrics.MetricValue, 0, len(values))}
	for _, v := range values {
		ref := custom_metrics.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: v.Pod}
		list.Items = append(list.Items, value(view.Table.Rule(), ref, metricSelector, v.Answer))
	}
	return list, nil
}
