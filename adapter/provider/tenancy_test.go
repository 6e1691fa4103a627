package provider

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// fixedTables are tables that are never refreshed.
type fixedTables map[string]cache.State

func (f fixedTables) Has(rule string) bool { return f[rule].Table != nil }

func (f fixedTables) View(_ context.Context, rule, _ string) (cache.State, error) {
	if !f.Has(rule) {
		return cache.State{}, cache.ErrUnknownRule
	}
	return f[rule], nil
}

func (f fixedTables) Rules() (all []signal.Rule) {
	for _, v := range f {
		all = append(all, v.Table.Rule())
	}
	return all
}

// allPods has the same pods in each namespace.
type allPods []string

func (allPods) Ready() error                                               { return nil }
func (e allPods) Lives(_, pod string) (time.Time, bool)                    { return time.Time{}, slices.Contains(e, pod) }
func (e allPods) Select(string, labels.Selector) []string                  { return e }
func (e allPods) Owned(string, schema.GroupKind, string) ([]string, error) { return e, nil }
func (e allPods) Service(string, string) (labels.Selector, error)          { return labels.Everything(), nil }

// Values differ by their size: chat's are below one, those of other namespaces a thousand or more. So no sum or average
// of chat's own values can look like one that includes another's.
const foreign = 1000

// tenants has series of chat and of four other namespaces for every built-in rule. Names of some of them begin, end or
// match like chat's.
func tenants(t testing.TB) *Provider {
	t.Helper()
	tables := fixedTables{}
	for _, r := range signal.Builtin(time.Minute) {
		r.Minimum, r.Maximum, r.Exporters = 0, 1e9, []string{"gpu-operator"}
		if len(r.Sources) > 1 {
			r.Sources = r.Sources[:1]
		}
		var samples []signal.Sample
		add := func(value float64, pairs ...string) {
			samples = append(samples, sample(value, now, pairs...)...)
		}
		for i, namespace := range []string{"chat", "victim", "chat2", "ch.t", "Chat"} {
			for n, pod := range []string{"a", "b"} {
				value := 0.001 * float64(n+1)
				if i > 0 {
					value = foreign * float64(i)
				}
				device := fmt.Sprint("GPU-", i, n)
				add(value, "namespace", namespace, "pod", pod, "model_name", "m", "gpu_uuid", device, "engine", "0")
				add(value, "namespace", "gpu-operator", "pod", "dcgm", "exported_namespace", namespace, "exported_pod", pod, "gpu_uuid", device)
				// A tenant of that namespace reports on chat's pods.
				if i > 0 {
					add(value, "namespace", namespace, "pod", pod, "exported_namespace", "chat", "exported_pod", pod, "gpu_uuid", device)
				}
			}
		}
		tables[r.Name] = cache.State{Table: tableOf(r, now, samples)}
	}
	p := New(tables, allPods{"a", "b"}, fixedScale{Selector: labels.Everything()}, mapper(), prometheus.NewRegistry())
	p.Now = func() time.Time { return now }
	return p
}

// readAs queries every API for chat's values with this metric, name and selector, and returns each number that comes
// back.
func readAs(ctx context.Context, p *Provider, metric, name string, pods, series labels.Selector) (values []float64) {
	custom := func(resource schema.GroupResource, namespaced bool, n types.NamespacedName) {
		info := cma.CustomMetricInfo{GroupResource: resource, Namespaced: namespaced, Metric: metric}
		if v, err := p.GetMetricByName(ctx, n, info, series); err == nil {
			values = append(values, v.Value.AsApproximateFloat64())
		}
	}
	named := types.NamespacedName{Namespace: "chat", Name: name}
	for _, resource := range []schema.GroupResource{{Resource: "pods"}, {Group: "apps", Resource: "deployments"}, {Group: "example.io", Resource: "models"}, {Resource: "services"}} {
		custom(resource, true, named)
	}
	// The request is in the namespace that it is about: the caller may read there.
	custom(schema.GroupResource{Resource: "namespaces"}, false, types.NamespacedName{Name: "chat"})
	info := cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: metric}
	if list, err := p.GetMetricBySelector(ctx, "chat", pods, info, series); err == nil {
		for _, v := range list.Items {
			values = append(values, v.Value.AsApproximateFloat64())
			if v.DescribedObject.Namespace != "chat" {
				values = append(values, math.Inf(1))
			}
		}
	}
	if list, err := p.GetExternalMetric(ctx, "chat", series, cma.ExternalMetricInfo{Metric: metric}); err == nil {
		for _, v := range list.Items {
			values = append(values, v.Value.AsApproximateFloat64())
		}
	}
	return values
}

// TestHonestQuestionsAreAnswered: without answers FuzzTenancy would not find a leak.
func TestHonestQuestionsAreAnswered(t *testing.T) {
	p, honest := tenants(t), 0
	for _, r := range p.tables.Rules() {
		honest += len(readAs(t.Context(), p, r.Name, "a", all, all))
	}
	if honest < 5*len(p.tables.Rules()) {
		t.Errorf("only %d honest answers", honest)
	}
}

var hostileSelectors = []string{
	"namespace=victim", "namespace!=chat", "namespace in (chat,victim)", "namespace", "!namespace",
	"exported_namespace=victim", "exported_namespace!=chat", "exported_namespace", "exported_pod=a",
	"__name__=up", "__name__", "pod=a,namespace=victim", "gpu_uuid", "gpu_uuid notin (x)",
	"namespace in (.*)", "namespace in (ch.t)", "pod in (a|b)", "gpuscale_part=v0", "gpuscale_source",
	"model_name=", "model_name in ()", "x>1", "namespace=" + strings.Repeat("v", 63),
}

// FuzzTenancy: for any metric, object name and selectors of a caller, no API includes another namespace's value in a
// number for chat.
func FuzzTenancy(f *testing.F) {
	p := tenants(f)
	for _, r := range p.tables.Rules() {
		for _, s := range hostileSelectors {
			f.Add(r.Name, "a", s, s)
			f.Add(r.Name, "b", "", s)
		}
	}
	f.Add("gpu_busy", "../victim/pods/a", "", "")
	f.Add("gpu_busy", "victim/a", "", "")
	f.Add("queue_depth", "*", "", "")
	f.Add(`queue_depth{namespace="victim"}`, "a\x00victim", "", "")
	f.Add("queue_depth", "ａ", "", "")
	f.Fuzz(func(t *testing.T, metric, name, pods, series string) {
		podSelector, err := labels.Parse(pods)
		if err != nil {
			return
		}
		seriesSelector, err := labels.Parse(series)
		if err != nil {
			return
		}
		for _, v := range readAs(t.Context(), p, metric, name, podSelector, seriesSelector) {
			if v >= foreign/2 {
				t.Errorf("%q of %q with %q and %q reads %v", metric, name, pods, series, v)
			}
		}
	})
}
