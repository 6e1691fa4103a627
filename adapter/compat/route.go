package compat

import (
	"context"

	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

// Route combines a file's metrics with those of another provider. A metric that
// the file declares comes from the file, so that a migration changes no answer;
// every other metric goes to the other provider.
type Route struct {
	file  *Provider
	other cma.MetricsProvider
}

var _ cma.MetricsProvider = (*Route)(nil)

// NewRoute returns the two providers as one.
func NewRoute(file *Provider, other cma.MetricsProvider) *Route {
	return &Route{file: file, other: other}
}

// GetMetricByName implements the interface.
func (r *Route) GetMetricByName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector k8slabels.Selector) (*custom_metrics.MetricValue, error) {
	return r.custom(info).GetMetricByName(ctx, name, info, selector)
}

// GetMetricBySelector implements the interface.
func (r *Route) GetMetricBySelector(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.CustomMetricInfo, metricSelector k8slabels.Selector) (*custom_metrics.MetricValueList, error) {
	return r.custom(info).GetMetricBySelector(ctx, namespace, selector, info, metricSelector)
}

// GetExternalMetric implements the interface.
func (r *Route) GetExternalMetric(ctx context.Context, namespace string, selector k8slabels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	if r.file.registry.Load().external[info.Metric] != nil || r.undecided(info.Metric) {
		return r.file.GetExternalMetric(ctx, namespace, selector, info)
	}
	return r.other.GetExternalMetric(ctx, namespace, selector, info)
}

func (r *Route) custom(info cma.CustomMetricInfo) cma.CustomMetricsProvider {
	if _, t := r.file.lookup(info); t != nil || r.undecided(info.Metric) {
		return r.file
	}
	return r.other
}

// undecided reports whether a name may still belong to the file: the other
// provider does not have it, and the file's series have never been listed. The
// answer is then "not yet", not "not found".
func (r *Route) undecided(metric string) bool {
	if r.file.Ready() == nil {
		return false
	}
	for _, m := range r.other.ListAllExternalMetrics() {
		if m.Metric == metric {
			return false
		}
	}
	return true
}

// ListAllMetrics lists both providers' metrics, each once.
func (r *Route) ListAllMetrics() []cma.CustomMetricInfo {
	return union(r.file.ListAllMetrics(), r.other.ListAllMetrics())
}

// ListAllExternalMetrics lists both providers' metrics, each once.
func (r *Route) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	return union(r.file.ListAllExternalMetrics(), r.other.ListAllExternalMetrics())
}

func union[T comparable](lists ...[]T) []T {
	var all []T
	met := map[T]bool{}
	for _, list := range lists {
		for _, item := range list {
			if !met[item] {
				met[item] = true
				all = append(all, item)
			}
		}
	}
	return all
}
