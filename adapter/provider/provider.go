package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/text"
)

// Tables is the part of *cache.Cache the provider needs.
type Tables interface {
	View(ctx context.Context, rule, namespace string) (cache.State, error)
	Rules() []signal.Rule
	Has(rule string) bool
}

// Provider implements both metrics APIs.
type Provider struct {
	Answerer
	tables  Tables
	mapper  apimeta.RESTMapper
	answers *prometheus.CounterVec
}

var _ cma.MetricsProvider = (*Provider)(nil)

// New returns a provider.
func New(tables Tables, pods Pods, scales Scales, mapper apimeta.RESTMapper, reg prometheus.Registerer) *Provider {
	d := metric.AdapterAnswers
	return &Provider{
		Answerer: Answerer{Pods: pods, Scales: scales, Now: time.Now}, tables: tables, mapper: mapper,
		answers: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels),
	}
}

// GetMetricByName answers for one object: a pod, a namespace, or a workload
// through its pods.
func (p *Provider) GetMetricByName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector labels.Selector) (_ *custom_metrics.MetricValue, err error) {
	defer func() { p.answered(info.Metric, err) }()
	if !p.tables.Has(info.Metric) {
		return nil, p.unknown(info.Metric)
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
	rule := view.Table.Rule()
	return Value(rule.Name, o.Ref, selector, a.Time, window(rule), quantity(a.Value)), nil
}

// GetMetricBySelector answers for each pod the selector matches that has a
// usable value.
func (p *Provider) GetMetricBySelector(ctx context.Context, namespace string, selector labels.Selector, info cma.CustomMetricInfo, metricSelector labels.Selector) (_ *custom_metrics.MetricValueList, err error) {
	defer func() { p.answered(info.Metric, err) }()
	if info.GroupResource.String() != "pods" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("only pods can be asked for by selector, not %s", info.GroupResource))
	}
	view, err := p.view(ctx, info.Metric, namespace)
	if err != nil {
		return nil, err
	}
	values, _, err := p.Each(view.Table, namespace, selector, metricSelector)
	if err != nil {
		return nil, missing(view, namespace, metricSelector, err)
	}
	list, rule := &custom_metrics.MetricValueList{Items: make([]custom_metrics.MetricValue, 0, len(values))}, view.Table.Rule()
	for _, v := range values {
		ref := Reference(podKind.WithVersion("v1"), types.NamespacedName{Namespace: namespace, Name: v.Pod})
		list.Items = append(list.Items, *Value(rule.Name, ref, metricSelector, v.Time, window(rule), quantity(v.Value)))
	}
	return list, nil
}

// GetExternalMetric answers with exactly one item: everything in the namespace
// that the selector matches, through the rule's PerWorkload aggregation.
func (p *Provider) GetExternalMetric(ctx context.Context, namespace string, selector labels.Selector, info cma.ExternalMetricInfo) (_ *external_metrics.ExternalMetricValueList, err error) {
	defer func() { p.answered(info.Metric, err) }()
	view, err := p.view(ctx, info.Metric, namespace)
	if err != nil {
		return nil, err
	}
	a, err := p.External(view.Table, namespace, selector)
	if err != nil {
		return nil, missing(view, namespace, selector, err)
	}
	return External(info.Metric, selector, a.Time, window(view.Table.Rule()), quantity(a.Value)), nil
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
	return all
}

// object returns what a request names. Pods and namespaces need no discovery.
func (p *Provider) object(name types.NamespacedName, info cma.CustomMetricInfo) (Object, error) {
	switch info.GroupResource.String() {
	case "pods":
		return Object{Ref: Reference(podKind.WithVersion("v1"), name)}, nil
	case "namespaces":
		return Object{Ref: custom_metrics.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name.Name}}, nil
	case "services":
		return Object{Kind: serviceKind, Ref: Reference(serviceKind.WithVersion("v1"), name)}, nil
	}
	gvr, gvk, err := KindOf(p.mapper, info.GroupResource)
	if err != nil {
		return Object{}, err
	}
	if name.Namespace == "" {
		return Object{}, NotFound("%s %s is in no namespace: it has no pods", gvk.Kind, name.Name)
	}
	return Object{Resource: gvr, Kind: gvk.GroupKind(), Ref: Reference(gvk, name)}, nil
}

// KindOf returns the resource and the kind of a request's group and resource.
func KindOf(mapper apimeta.RESTMapper, of schema.GroupResource) (schema.GroupVersionResource, schema.GroupVersionKind, error) {
	gvr, err := mapper.ResourceFor(of.WithVersion(""))
	if err != nil {
		return gvr, schema.GroupVersionKind{}, NotFound("no resource is called %s", of)
	}
	gvk, err := mapper.KindFor(gvr)
	if err != nil {
		return gvr, gvk, NotFound("no kind is known for %s", of)
	}
	return gvr, gvk, nil
}

// Reference names an object of a kind.
func Reference(of schema.GroupVersionKind, name types.NamespacedName) custom_metrics.ObjectReference {
	return custom_metrics.ObjectReference{APIVersion: of.GroupVersion().String(), Kind: of.Kind, Namespace: name.Namespace, Name: name.Name}
}

// Value is an object's value in the API.
func Value(metric string, of custom_metrics.ObjectReference, selector labels.Selector, at time.Time, window *int64, v resource.Quantity) *custom_metrics.MetricValue {
	return &custom_metrics.MetricValue{
		DescribedObject: of, Metric: custom_metrics.MetricIdentifier{Name: metric, Selector: identifier(selector)},
		Timestamp: metav1.NewTime(at), WindowSeconds: window, Value: v,
	}
}

// identifier repeats a request's selector, as the API requires.
func identifier(selector labels.Selector) *metav1.LabelSelector {
	if selector.Empty() {
		return nil
	}
	parsed, err := metav1.ParseToLabelSelector(selector.String())
	if err != nil {
		return nil // greater-than and less-than have no such form
	}
	return parsed
}

// External is an external metric's one value in the API. Its labels are those that the selector
// requires to equal one value.
func External(metric string, selector labels.Selector, at time.Time, window *int64, v resource.Quantity) *external_metrics.ExternalMetricValueList {
	fixed := map[string]string{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if v, ok := selector.RequiresExactMatch(r.Key()); ok {
			fixed[r.Key()] = v
		}
	}
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName: metric, MetricLabels: fixed, Timestamp: metav1.NewTime(at), WindowSeconds: window, Value: v,
	}}}
}

func window(rule signal.Rule) *int64 { return new(int64(rule.Window.Seconds())) }

// quantity is in thousandths, the HPA's resolution. v is not NaN: tables drop
// such values.
func quantity(v float64) resource.Quantity {
	return *resource.NewMilliQuantity(signal.Milli(v), resource.DecimalSI)
}

func (p *Provider) view(ctx context.Context, rule, namespace string) (cache.State, error) {
	view, err := p.tables.View(ctx, rule, namespace)
	switch {
	case errors.Is(err, cache.ErrUnknownRule):
		return view, p.unknown(rule)
	case err != nil:
		return view, apierrors.NewTimeoutError(fmt.Sprintf("waiting for the first value of %s: %v", rule, err), 1)
	}
	return view, nil
}

func (p *Provider) unknown(rule string) error {
	var names []string
	for _, r := range p.tables.Rules() {
		names = append(names, r.Name)
	}
	return NotFound("no signal is called %s; %s", rule, Nearest(rule, names))
}

const (
	// maxNames and maxName bound the names of an error, and the letters of a requested one that are compared.
	maxNames, maxName = 12, 128
)

// Nearest names what there is, the most similar names first, since a request has another one.
func Nearest(requested string, names []string) string {
	if len(names) == 0 {
		return "the adapter serves none"
	}
	requested = text.Short(requested, maxName)
	away := map[string]int{}
	for _, name := range names {
		away[name] = text.Distance(requested, name)
	}
	names = slices.SortedFunc(maps.Keys(away), func(a, b string) int { return cmp.Or(cmp.Compare(away[a], away[b]), cmp.Compare(a, b)) })
	return "the adapter serves " + text.Several(names, maxNames)
}

// missing returns the API's error for a missing value, with PromQL that shows the series.
func missing(view cache.State, namespace string, selector labels.Selector, why error) error {
	if hint := view.Table.Rule().Hint(namespace, selector); hint != "" && view.Failure == nil && errors.As(why, new(*signal.NoAnswer)) {
		return NotFound("%v; look at %s", why, hint)
	}
	return Refusal(why, view.Failure)
}

// Refusal returns the API's error for a missing value: 503 when the last query failed,
// 404 when Prometheus has no fresh sample.
func Refusal(why, failure error) error {
	switch {
	case errors.As(why, new(apierrors.APIStatus)):
		return why
	case !errors.As(why, new(*signal.NoAnswer)):
		return apierrors.NewInternalError(why)
	case failure != nil:
		return Unavailable("%v; the last query failed: %v", why, failure)
	}
	return NotFound("%v", why)
}

// NotFound is the API's error 404 with the given message.
func NotFound(format string, args ...any) error {
	return Status(http.StatusNotFound, metav1.StatusReasonNotFound, format, args...)
}

// Unavailable is the API's error 503 with the given message.
func Unavailable(format string, args ...any) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
}

// Internal is the API's error 500 with the given message.
func Internal(format string, args ...any) error {
	return Status(http.StatusInternalServerError, metav1.StatusReasonInternalError, format, args...)
}

// Status is an error of the API with the given message.
func Status(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// CodeOf is the HTTP code of the API's errors, 0 of others.
func CodeOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// Code is the HTTP code of an answer with this error, or none.
func Code(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return cmp.Or(CodeOf(err), http.StatusInternalServerError)
}

// answered counts an answer.
func (p *Provider) answered(rule string, err error) {
	if !p.tables.Has(rule) {
		rule = "unknown" // a request must not create label values
	}
	p.answers.WithLabelValues(rule, strconv.Itoa(Code(err))).Inc()
}
