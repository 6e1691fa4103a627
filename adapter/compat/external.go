package compat

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// GetExternalMetric answers with one item: the sum of the query's series. v0.12.0
// returns an item each, and the HPA sums them.
func (p *Provider) GetExternalMetric(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	r := p.registry.Load()
	t := r.external[info.Metric]
	if t == nil {
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
