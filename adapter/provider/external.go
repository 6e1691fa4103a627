package provider

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

func (p *Provider) external(ctx context.Context, namespace string, selector labels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	view, err := p.view(ctx, info.Metric)
	if err != nil {
		return nil, err
	}
	if err := p.pods.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	if namespace == "" {
		return nil, badRequest("external metrics are read in a namespace")
	}
	a, err := view.Table.External(namespace, selector, p.now(), func(pod string) bool { return p.pods.Has(namespace, pod) })
	if err != nil {
		return nil, missing(view, namespace, selector, err)
	}
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName:    info.Metric,
		MetricLabels:  exactly(selector),
		Timestamp:     metav1.NewTime(a.Time),
		WindowSeconds: window(view.Table.Rule()),
		Value:         quantity(a.Value),
	}}}, nil
}

// exactly returns the labels a selector fixes to one value.
func exactly(selector labels.Selector) map[string]string {
	fixed := map[string]string{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if v, ok := selector.RequiresExactMatch(r.Key()); ok {
			fixed[r.Key()] = v
		}
	}
	return fixed
}
