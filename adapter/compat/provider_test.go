package compat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// bed is a provider over a Prometheus in memory, whose time stands still ten
// minutes after the epoch.
type env struct {
	t    *testing.T
	data memory

	mu        sync.Mutex
	questions map[string]int
	fail      func(query string) error

	families map[string][]prom.Family
	listings map[string]error
	pods     map[string][]string
}

// Watch evaluates at once what the cache would keep answered.
func (b *env) Watch(_ context.Context, q cache.Question, namespace string) (cache.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions[q.Version]++
	query := q.Queries(false, []string{namespace})[0]
	if b.fail != nil {
		if err := b.fail(query); err != nil {
			return cache.State{Failure: err}, nil
		}
	}
	v, err := b.data.query(b.t, query, 10*time.Minute)
	if err != nil {
		return cache.State{Failure: fmt.Errorf("%w: %w", prom.ErrBadQuery, err)}, nil
	}
	now := time.Now()
	value, _, _ := q.Build(nil, v, signal.Reading{Evaluated: epoch.Add(10 * time.Minute), Now: now})
	return cache.State{Value: value, At: now}, nil
}

func (b *env) Series(_ context.Context, selector string, _ time.Time) ([]prom.Family, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.listings[selector]; err != nil {
		return nil, err
	}
	return b.families[selector], nil
}

func (*env) Ready() error { return nil }

func (b *env) Select(namespace string, _ k8slabels.Selector) []string { return b.pods[namespace] }

func (b *env) Names(_ context.Context, r schema.GroupVersionResource, _ string, _ k8slabels.Selector) ([]string, error) {
	if r.Resource == "services" {
		return []string{"api", "web"}, nil
	}
	return nil, errors.New("not allowed")
}

const envRules = `
rules:
- seriesQuery: 'queue{pod!=""}'
  resources: {template: "<<.Resource>>"}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: 'http_requests_total{pod!=""}'
  resources: {template: "<<.Resource>>"}
  name: {matches: "(.*)_total"}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
externalRules:
- seriesQuery: 'queue{namespace!=""}'
  resources: {template: "<<.Resource>>"}
  name: {as: backlog}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (topic)
`

func newEnv(t *testing.T) (*env, *Provider) {
	t.Helper()
	b := &env{
		t: t, data: load(t, world), questions: map[string]int{}, listings: map[string]error{},
		families: map[string][]prom.Family{
			`queue{pod!=""}`:               {family("queue", "namespace", "pod", "topic")},
			`queue{namespace!=""}`:         {family("queue", "namespace", "pod", "topic")},
			`http_requests_total{pod!=""}`: {family("http_requests_total", "namespace", "pod", "service", "method")},
		},
		pods: map[string][]string{"shop": {"web-1", "web-2", "web-9"}, "bank": {"web-1", "web-3"}},
	}
	f, err := Parse("pa.yaml", []byte(envRules))
	if err != nil {
		t.Fatal(err)
	}
	return b, New(Options{}, f, Sources{Watcher: b, Lister: b, Pods: b, Objects: b, Mapper: kinds()}, slog.New(slog.DiscardHandler))
}

func pods(metric string) cma.CustomMetricInfo {
	return cma.CustomMetricInfo{GroupResource: core("pods"), Namespaced: true, Metric: metric}
}

func list(t *testing.T, p *Provider, namespace, metric, selector string) (string, error) {
	t.Helper()
	got, err := p.GetMetricBySelector(t.Context(), namespace, k8slabels.Everything(), pods(metric), selectorOf(t, selector))
	if err != nil {
		return "", err
	}
	var all []string
	for _, i := range got.Items {
		if i.DescribedObject.Kind != "Pod" || i.DescribedObject.APIVersion != "v1" || i.DescribedObject.Namespace != namespace || i.Metric.Name != metric {
			t.Errorf("%+v", i)
		}
		all = append(all, i.DescribedObject.Name+"="+i.Value.String())
	}
	return strings.Join(all, " "), nil
}

func external(t *testing.T, p *Provider, namespace, selector string) (string, error) {
	t.Helper()
	got, err := p.GetExternalMetric(t.Context(), namespace, selectorOf(t, selector), cma.ExternalMetricInfo{Metric: "backlog"})
	if err != nil {
		return "", err
	}
	if len(got.Items) != 1 || got.Items[0].MetricName != "backlog" {
		t.Errorf("%+v", got.Items)
	}
	return got.Items[0].Value.String(), nil
}

// However many objects, namespaces and autoscalers there are, a metric is one
// question, and a metric selector another.
func TestOneQuestionForAMetric(t *testing.T) {
	b, p := newEnv(t)
	p.relist(t.Context())
	for range 5 {
		for ns, want := range map[string]string{"shop": "web-1=10 web-2=1", "bank": "web-1=100 web-3=0"} {
			if got, err := list(t, p, ns, "queue", ""); err != nil || got != want {
				t.Fatalf("%s: %s, %v", ns, got, err)
			}
			v, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: ns, Name: "web-1"}, pods("queue"), k8slabels.Everything())
			if err != nil || !strings.HasPrefix(want, "web-1="+v.Value.String()) {
				t.Fatalf("%v, %v", v, err)
			}
		}
	}
	if len(b.questions) != 1 {
		t.Errorf("%d questions: %v", len(b.questions), b.questions)
	}
	if got, err := list(t, p, "shop", "queue", "topic=a"); err != nil || got != "web-1=4 web-2=1" || len(b.questions) != 2 {
		t.Errorf("%s, %v, %d questions", got, err, len(b.questions))
	}
}

func TestOtherObjects(t *testing.T) {
	_, p := newEnv(t)
	p.relist(t.Context())
	ns, err := p.GetMetricByName(t.Context(), types.NamespacedName{Name: "shop"}, cma.CustomMetricInfo{GroupResource: core("namespaces"), Metric: "queue"}, k8slabels.Everything())
	if err != nil || ns.Value.String() != "11" || ns.DescribedObject.Kind != "Namespace" {
		t.Errorf("%+v, %v", ns, err)
	}
	services := cma.CustomMetricInfo{GroupResource: core("services"), Namespaced: true, Metric: "http_requests"}
	all, err := p.GetMetricBySelector(t.Context(), "shop", k8slabels.Everything(), services, k8slabels.Everything())
	if err != nil || len(all.Items) != 1 || all.Items[0].DescribedObject.Name != "web" || all.Items[0].Value.MilliValue() != 1066 || *all.Items[0].WindowSeconds != 120 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestExternal(t *testing.T) {
	_, p := newEnv(t)
	p.relist(t.Context())
	for _, tc := range []struct{ namespace, selector, want string }{{"shop", "", "11"}, {"bank", "", "100"}, {"shop", "topic=b", "6"}} {
		if got, err := external(t, p, tc.namespace, tc.selector); err != nil || got != tc.want {
			t.Errorf("%+v: %s, %v", tc, got, err)
		}
	}
	if !p.Has("backlog") || p.Has("queue") {
		t.Error("Has is wrong about external metrics")
	}
}

// Every refusal has the code that says whose fault it is, and a sentence.
func TestErrors(t *testing.T) {
	b, p := newEnv(t)
	if _, err := list(t, p, "shop", "queue", ""); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "not been listed yet") {
		t.Errorf("before the first listing: %v", err)
	}
	p.relist(t.Context())
	code := func(err error) int32 {
		var s apierrors.APIStatus
		if errors.As(err, &s) {
			return s.Status().Code
		}
		return 0
	}
	for _, tc := range []struct {
		namespace, metric, selector string
		code                        int32
		says                        string
	}{
		{"shop", "nonsense", "", 404, "no rule of"},
		{"void", "queue", "", 404, "0 pods"},
		{"shop", "queue", "topic=z", 404, `the query is sum by (pod, namespace) (queue{namespace!="",pod!="",topic="z"})`},
		{"shop", "queue", "topic>1", 400, "has no equivalent in PromQL"},
	} {
		if _, err := list(t, p, tc.namespace, tc.metric, tc.selector); code(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	b.fail = func(string) error { return fmt.Errorf("%w: HTTP 502", prom.ErrUnavailable) }
	if _, err := list(t, p, "shop", "queue", ""); code(err) != 503 || !strings.Contains(err.Error(), "HTTP 502") {
		t.Errorf("Prometheus away: %v", err)
	}
	if _, err := external(t, p, "shop", ""); code(err) != 503 {
		t.Errorf("Prometheus away: %v", err)
	}
	b.fail = func(string) error { return fmt.Errorf("%w: many-to-many", prom.ErrBadQuery) }
	if _, err := list(t, p, "shop", "queue", ""); code(err) != 500 || !strings.Contains(err.Error(), "many-to-many") {
		t.Errorf("a query that cannot be answered: %v", err)
	}
}

// The commonest mistake in published files: avg(…) without by names no
// pod. v0.12.0 answers it with an empty list.
func TestAQueryThatNamesNoPodSaysSo(t *testing.T) {
	_, p := newEnv(t)
	var err error
	text := strings.Replace(envRules, "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)", "avg(<<.Series>>{<<.LabelMatchers>>})", 1)
	if p.file, err = Parse("pa.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	p.relist(t.Context())
	if got, err := list(t, p, "shop", "queue", ""); !apierrors.IsNotFound(err) || !strings.HasSuffix(err.Error(), "avg does not keep the label pod; by (<<.GroupBy>>) would") {
		t.Errorf("%s, %v", got, err)
	}
}

// A listing that fails keeps what it found before, and the others go on.
func TestAFailingSelectorFailsAlone(t *testing.T) {
	b, p := newEnv(t)
	b.listings[`queue{pod!=""}`] = prom.ErrUnavailable
	if wait := p.relist(t.Context()); wait != retry {
		t.Errorf("tried again after %s", wait)
	}
	if _, err := list(t, p, "shop", "queue", ""); err == nil {
		t.Error("a metric that was never listed is served")
	}
	if got, err := list(t, p, "bank", "http_requests", ""); err != nil || got == "" {
		t.Errorf("the other rule: %s, %v", got, err)
	}
	b.listings = map[string]error{}
	if wait := p.relist(t.Context()); wait != 10*time.Minute {
		t.Errorf("listed again after %s", wait)
	}
	b.listings[`queue{pod!=""}`] = prom.ErrUnavailable
	p.relist(t.Context())
	if got, err := list(t, p, "shop", "queue", ""); err != nil || got != "web-1=10 web-2=1" {
		t.Errorf("the previous list is gone: %s, %v", got, err)
	}
	rules := p.Rules()
	if len(rules) != 3 || !strings.Contains(rules[0].Problems[0], "listing its series") || len(rules[1].Problems) != 0 || rules[1].Metrics[0] != "namespaces/http_requests" {
		t.Errorf("%+v", rules)
	}
}

// other is a provider of one signal.
type other struct{ cma.MetricsProvider }

var errOther = errors.New("of the other")

func (other) GetMetricByName(context.Context, types.NamespacedName, cma.CustomMetricInfo, k8slabels.Selector) (*custom_metrics.MetricValue, error) {
	return nil, errOther
}

func (other) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	return []cma.ExternalMetricInfo{{Metric: "gpu_busy"}, {Metric: "backlog"}}
}

func (other) ListAllMetrics() []cma.CustomMetricInfo {
	return []cma.CustomMetricInfo{pods("gpu_busy"), pods("queue")}
}

func TestWhatTheFileDoesNotDeclareIsTheOthers(t *testing.T) {
	_, p := newEnv(t)
	own := len(p.ListAllMetrics())
	p.Other = other{}
	asked := func(metric string) string {
		if _, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web-1"}, pods(metric), k8slabels.Everything()); errors.Is(err, errOther) {
			return "other"
		}
		return "file"
	}
	if got := asked("gpu_busy") + " " + asked("queue"); got != "other file" || own != 0 {
		t.Errorf("before the first listing: %s, %d metrics", got, own)
	}
	p.relist(t.Context())
	if got := asked("gpu_busy") + " " + asked("queue") + " " + asked("nonsense"); got != "other file other" {
		t.Errorf("%s", got)
	}
	if n := len(p.ListAllExternalMetrics()); n != 2 {
		t.Errorf("%d external metrics", n)
	}
	all := p.ListAllMetrics()
	p.Other = nil
	if n, want := len(all), len(p.ListAllMetrics())+1; n != want {
		t.Errorf("%d custom metrics, want %d", n, want)
	}
}

func TestOptions(t *testing.T) {
	err := Options{RelistInterval: metav1.Duration{Duration: time.Hour}, SeriesAge: metav1.Duration{Duration: time.Minute}, MaxAge: metav1.Duration{Duration: -1}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "seriesAge: must not be shorter") || !strings.Contains(err.Error(), "maxAge: must not be negative") {
		t.Errorf("%v", err)
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
