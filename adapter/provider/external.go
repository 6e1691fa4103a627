package provider

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

func (p *Provider) inNamespace(ctx context.Context, namespace string, selector labels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	view, err := p.view(ctx, info.Metric, namespace)
	if err != nil {
		return nil, err
	}
	a, err := p.External(view.Table, namespace, selector)
	if err != nil {
		return nil, missing(view, namespace, selector, err)
	}
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName:    info.Metric,
		MetricLabels:  Exactly(selector),
		Timestamp:     metav1.NewTime(a.Time),
		WindowSeconds: window(view.Table.Rule()),
		Value:         quantity(a.Value),
	}}}, nil
}

// Exactly returns the labels that a selector requires to equal one value.
func Exactly(selector labels.Selector) map[string]string {
	fixed := map[string]string{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if v, ok := selector.RequiresExactMatch(r.Key()); ok {
			fixed[r.Key()] = v
		}
	}
	return fixed
}
