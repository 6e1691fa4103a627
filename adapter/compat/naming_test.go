package compat

import (
	"slices"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// kinds is a cluster with the usual resources, some in groups.
func kinds() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "networking.k8s.io", Version: "v1"}, {Group: "batch", Version: "v1"}})
	for kind, root := range map[schema.GroupVersionKind]bool{
		{Version: "v1", Kind: "Pod"}: false, {Version: "v1", Kind: "Service"}: false,
		{Version: "v1", Kind: "Namespace"}: true, {Version: "v1", Kind: "Node"}: true, {Version: "v1", Kind: "PersistentVolume"}: true,
		{Group: "apps", Version: "v1", Kind: "Deployment"}:           false,
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}: false,
		{Group: "batch", Version: "v1", Kind: "Job"}:                 false,
	} {
		scope := apimeta.RESTScopeNamespace
		if root {
			scope = apimeta.RESTScopeRoot
		}
		m.Add(kind, scope)
	}
	return m
}

func family(name string, labels ...string) prom.Family {
	slices.Sort(labels)
	return prom.Family{Name: name, Labels: labels}
}

// found is what a Prometheus lists for the selectors of testdata/default.yaml.
func found(f *File) map[string]*listing {
	return map[string]*listing{
		f.Rules[0].SeriesQuery: {families: []prom.Family{
			family("container_some_time_seconds_total", "pod", "namespace", "container"),
			family("container_some_count_total", "pod", "namespace", "container"),
			family("container_some_usage", "pod", "namespace", "container"),
		}},
		f.Rules[3].SeriesQuery: {families: []prom.Family{
			family("ingress_hits_total", "kube_ingress", "kube_service", "kube_pod", "kube_namespace", "job"),
			family("ingress_hits_total", "kube_ingress", "kube_service", "kube_pod", "kube_namespace"),
			family("service_proxy_packets", "kube_service", "kube_namespace"),
			family("work_queue_wait_seconds_total", "kube_deployment", "kube_namespace"),
			family("node_gigawatts", "kube_node"),
			family("volume_claims_total", "kube_persistentvolume"),
			family("node_fan_seconds_total", "kube_node"),
		}},
	}
}

func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

// TestDefaultRulesFindTheirMetrics: the metrics that v0.12.0 lists for its own
// default rules.
func TestDefaultRulesFindTheirMetrics(t *testing.T) {
	f := read(t, "default.yaml")
	r := newRegistry(f, found(f), kinds())
	var got []string
	for info := range r.custom {
		got = append(got, info.String())
	}
	slices.Sort(got)
	want := []string{
		"deployments.apps/work_queue_wait(namespaced)",
		"ingresses.networking.k8s.io/ingress_hits(namespaced)",
		"namespaces/ingress_hits", "namespaces/service_proxy_packets", "namespaces/some_count", "namespaces/some_time",
		"namespaces/some_usage", "namespaces/work_queue_wait",
		"nodes/node_fan", "nodes/node_gigawatts", "persistentvolumes/volume_claims",
		"pods/ingress_hits(namespaced)", "pods/some_count(namespaced)", "pods/some_time(namespaced)", "pods/some_usage(namespaced)",
		"services/ingress_hits(namespaced)", "services/service_proxy_packets(namespaced)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestQueriesAreThoseOfV0120: the cases of v0.12.0's own tests of its default
// rules, and the query it sends for each.
func TestQueriesAreThoseOfV0120(t *testing.T) {
	f := read(t, "default.yaml")
	r := newRegistry(f, found(f), kinds())
	apps := func(r string) schema.GroupResource { return schema.GroupResource{Group: "apps", Resource: r} }
	ingresses := schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	for _, tc := range []struct {
		resource          schema.GroupResource
		metric, sel, want string // want without a namespace is about an object in no namespace
		names             string
	}{
		{core("pods"), "some_usage", "", `sum(container_some_usage{namespace="somens",pod=~"a|b",container!="POD"}) by (pod)`, "a b"},
		{core("pods"), "some_count", "", `sum(rate(container_some_count_total{namespace="somens",pod=~"a|b",container!="POD"}[1m])) by (pod)`, "a b"},
		{core("pods"), "some_time", "", `sum(rate(container_some_time_seconds_total{namespace="somens",pod=~"a|b",container!="POD"}[1m])) by (pod)`, "a b"},
		{core("services"), "ingress_hits", "", `sum(rate(ingress_hits_total{kube_namespace="somens",kube_service="a"}[1m])) by (kube_service)`, "a"},
		{core("services"), "ingress_hits", "param1=value1", `sum(rate(ingress_hits_total{param1="value1",kube_namespace="somens",kube_service="a"}[1m])) by (kube_service)`, "a"},
		{ingresses, "ingress_hits", "", `sum(rate(ingress_hits_total{kube_namespace="somens",kube_ingress="a"}[1m])) by (kube_ingress)`, "a"},
		{core("pods"), "ingress_hits", "", `sum(rate(ingress_hits_total{kube_namespace="somens",kube_pod="a"}[1m])) by (kube_pod)`, "a"},
		{core("services"), "service_proxy_packets", "", `sum(service_proxy_packets{kube_namespace="somens",kube_service="a"}) by (kube_service)`, "a"},
		{apps("deployments"), "work_queue_wait", "", `sum(rate(work_queue_wait_seconds_total{kube_namespace="somens",kube_deployment="a"}[1m])) by (kube_deployment)`, "a"},
		{core("nodes"), "node_gigawatts", "", `sum(node_gigawatts{kube_node="a"}) by (kube_node)`, "a"},
		{core("persistentvolumes"), "volume_claims", "", `sum(rate(volume_claims_total{kube_persistentvolume="a"}[1m])) by (kube_persistentvolume)`, "a"},
		{core("nodes"), "node_fan", "", `sum(rate(node_fan_seconds_total{kube_node="a"}[1m])) by (kube_node)`, "a"},
		{core("namespaces"), "ingress_hits", "", `sum(rate(ingress_hits_total{kube_namespace="a"}[1m])) by (kube_namespace)`, "a"},
	} {
		info, namespace := cma.CustomMetricInfo{GroupResource: tc.resource, Metric: tc.metric}, ""
		if strings.Contains(tc.want, "somens") {
			info.Namespaced, namespace = true, "somens"
		}
		tg := r.custom[info]
		if tg == nil {
			t.Errorf("%s is not served", info)
			continue
		}
		p, err := tg.specific(selectorOf(t, tc.sel), namespace, strings.Fields(tc.names), "asked")
		if err != nil {
			t.Errorf("%s: %v", info, err)
			continue
		}
		if got, want := p.value, canonical(t, tc.want); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", info, got, want)
		}
		general, err := tg.general(selectorOf(t, tc.sel))
		if err != nil || general.special != "" {
			t.Errorf("%s has no general query: %v %s", info, err, general.special)
		}
	}
}

// canonical spells PromQL the parser's way, matchers sorted.
func canonical(t testing.TB, text string) string {
	t.Helper()
	e, err := signal.Parser.ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e.String()
}

// TestTemplateArguments: the cases of v0.12.0's own tests of metricsQuery, for
// objects called bar and baz under the label resource, and for external ones.
func TestTemplateArguments(t *testing.T) {
	bar, both := []string{"bar"}, []string{"bar", "baz"}
	for _, tc := range []struct {
		template, namespace, sel string
		names                    []string
		want                     string
	}{
		{`series <<.Series>>`, "", "", bar, `series foo`},
		{`<<.LabelMatchers>>`, "", "", both, `resource=~"bar|baz"`},
		{`<<.LabelMatchers>>`, "", "", bar, `resource="bar"`},
		{`<<.LabelMatchers>>`, "", "metric1=value1", bar, `metric1="value1",resource="bar"`},
		{`<<index .LabelValuesByName "resource">>`, "", "", bar, `bar`},
		{`<<index .LabelValuesByName "resource">>`, "", "", both, `bar|baz`},
		{`<<index .LabelValuesByName "namespaces">> <<index .LabelValuesByName "resource">>`, "default", "", both, `default bar|baz`},
		{`<<.GroupBy>>`, "", "", bar, `resource`},
		{`<<.GroupBySlice>>`, "", "", bar, `[resource]`},
		// External ones.
		{`series <<.Series>>`, "", "", nil, `series foo`},
		{`x<<.GroupBy>>`, "", "", nil, `x`},
		{`<<.GroupBySlice>>`, "", "", nil, `[]`},
		{`<<index .LabelValuesByName "namespaces">> x`, "default", "", nil, `default x`},
		{`<<.LabelMatchers>>`, "", "foo=bar", nil, `foo="bar"`},
		{`<<.LabelMatchers>>`, "default", "foo=bar", nil, `foo="bar",namespaces="default"`},
		{`<<.LabelMatchers>>`, "", "foo=bar,qux in (bar,baz)", nil, `foo="bar",qux=~"bar|baz"`},
		{`<<.LabelMatchers>>`, "", "foo!=bar,qux notin (bar,baz),here,!there", nil, `foo!="bar",here!="",qux!~"bar|baz",there=""`},
		{`<<.LabelValuesByName>>`, "", "foo=bar", nil, `map[foo:bar]`},
		{`<<.LabelValuesByName>>`, "", "foo in (bar,baz)", nil, `map[foo:bar|baz]`},
		// Where v0.12.0 writes a regular expression with another meaning, or no PromQL at all.
		{`<<.LabelMatchers>>`, "", "version in (1.2,2.0)", nil, `version=~"1\\.2|2\\.0"`},
		{`<<.LabelMatchers>>`, "", "app.kubernetes.io/name=web", nil, `"app.kubernetes.io/name"="web"`},
	} {
		q, err := newQueryTemplate(tc.template)
		require.NoError(t, err)
		all, err := conditions(selectorOf(t, tc.sel))
		require.NoError(t, err)
		if tc.namespace != "" {
			all = append(all, named("namespaces", tc.namespace))
		}
		var groupBy []string
		if tc.names != nil {
			all = append(all, named("resource", tc.names...))
			groupBy = []string{"resource"}
		}
		got, err := q.render(arguments("foo", all, groupBy...))
		if err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.template, got, err, tc.want)
		}
	}
	for _, sel := range []string{"a>1", "a<1"} {
		if _, err := conditions(selectorOf(t, sel)); err == nil || !strings.Contains(err.Error(), "has no equivalent in PromQL") {
			t.Errorf("%s: %v", sel, err)
		}
	}
}

// FuzzSelector: a selector can only narrow what a query selects: every selector of the series keeps the forced
// matchers, and the query keeps its form.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"a=b", "a in (b,c.d)", "a/b.c!=d", "!a", "namespace=other", "namespace notin (shop)", `a in (")`, "gpuscale_part=v"} {
		f.Add(s, "shop", "web-1")
	}
	f.Add("", `shop"} or secret{x="y`, `web-1`)
	f.Add("", `shop`, `web-1"} or secret{x="y`)
	f.Add("", "shop|bank", ".*")
	query := `sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)`
	values := `sum(<<.Series>>{namespace="<<.LabelValuesByName.namespace>>",pod=~"<<.LabelValuesByName.pod>>"}) by (pod)`
	f.Fuzz(func(t *testing.T, text, namespace, pod string) {
		selector, err := k8slabels.Parse(text)
		if err != nil {
			return
		}
		for _, template := range []string{query, values} {
			tg := newTarget(t, template, "series", "namespace", "pod")
			if p, err := tg.general(selector); err == nil && p.special == "" {
				forced(t, p.value, `namespace!=""`, `pod!=""`)
			}
			p, err := tg.specific(selector, namespace, []string{pod}, "asked")
			if err != nil {
				continue
			}
			if namespace == "" {
				t.Skip("an object outside namespaces")
			}
			forced(t, p.value, named("namespace", namespace).String())
		}
	})
}
