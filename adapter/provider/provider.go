package provider

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Tables is the part of *cache.Cache the provider needs.
type Tables interface {
	View(ctx context.Context, rule, namespace string) (cache.View, error)
	Rules() []signal.Rule
	Has(rule string) bool
}

// Provider implements both metrics APIs.
type Provider struct {
	Answerer
	tables   Tables
	mapper   apimeta.RESTMapper
	metrics  *metrics
	external func() []string
}

// Extra is the optional part of a provider. Its fields may be nil.
type Extra struct {
	// Above finds pods through Services and owners of owners.
	Above Above
	// External lists further external metrics, which another server answers.
	External func() []string
}

var _ cma.MetricsProvider = (*Provider)(nil)

// New returns a provider. scales may be nil: then only Kubernetes' own kinds
// have pods.
func New(tables Tables, pods Pods, scales Scales, mapper apimeta.RESTMapper, reg Registerer) (*Provider, error) {
	m, err := newMetrics(reg, tables.Has)
	if err != nil {
		return nil, fmt.Errorf("registering provider metrics: %w", err)
	}
	return &Provider{Answerer: Answerer{Pods: pods, Scales: scales, Now: time.Now}, tables: tables, mapper: mapper, metrics: m}, nil
}

// Use sets the optional part. Call it before the first request.
func (p *Provider) Use(e Extra) { p.Above, p.external = e.Above, e.External }

// GetMetricByName answers for one object: a pod, a namespace, or a workload
// through its pods.
func (p *Provider) GetMetricByName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector labels.Selector) (*custom_metrics.MetricValue, error) {
	v, err := p.byName(ctx, name, info, selector)
	return v, p.metrics.answered(info.Metric, err)
}

// GetMetricBySelector answers for each pod the selector matches that has a
// usable value.
func (p *Provider) GetMetricBySelector(ctx context.Context, namespace string, selector labels.Selector, info cma.CustomMetricInfo, metricSelector labels.Selector) (*custom_metrics.MetricValueList, error) {
	v, err := p.bySelector(ctx, namespace, selector, info, metricSelector)
	return v, p.metrics.answered(info.Metric, err)
}

// GetExternalMetric answers with exactly one item: everything in the namespace
// that the selector matches, through the rule's PerWorkload aggregation.
func (p *Provider) GetExternalMetric(ctx context.Context, namespace string, selector labels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	v, err := p.inNamespace(ctx, namespace, selector, info)
	return v, p.metrics.answered(info.Metric, err)
}

// served are the objects in discovery. Others work too, but every client reads
// discovery documents, so the list stays short.
func served() []cma.CustomMetricInfo {
	return []cma.CustomMetricInfo{
		{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true},
		{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespaced: true},
		{GroupResource: schema.GroupResource{Group: "apps", Resource: "statefulsets"}, Namespaced: true},
		{GroupResource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, Namespaced: true},
		{GroupResource: schema.GroupResource{Resource: "namespaces"}},
	}
}

// ListAllMetrics lists each rule for each served object.
func (p *Provider) ListAllMetrics() []cma.CustomMetricInfo {
	var all []cma.CustomMetricInfo
	for _, r := range p.tables.Rules() {
		if r.Subject == signal.Namespace {
			continue
		}
		for _, info := range served() {
			info.Metric = r.Name
			all = append(all, info)
		}
	}
	return all
}

// ListAllExternalMetrics lists each rule.
func (p *Provider) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	var all []cma.ExternalMetricInfo
	for _, r := range p.tables.Rules() {
		all = append(all, cma.ExternalMetricInfo{Metric: r.Name})
	}
	if p.external != nil {
		for _, name := range p.external() {
			all = append(all, cma.ExternalMetricInfo{Metric: name})
		}
	}
	return all
}
