package compat

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// world has two namespaces with pods of the same names, several series each, a
// pod that one namespace lacks, and a histogram.
const world = `
	http_requests_total{namespace="shop",pod="web-1",service="web",method="GET",version="1.2"} 0+3x40
	http_requests_total{namespace="shop",pod="web-1",service="web",method="PUT",version="1.2"} 0+1x40
	http_requests_total{namespace="shop",pod="web-2",service="web",method="GET",version="1x2"} 0+5x40
	http_requests_total{namespace="shop",pod="web-2",service="web",method="PUT",version="1x2"} 0+7x40
	http_requests_total{namespace="bank",pod="web-1",service="web",method="GET",version="1.2"} 0+11x40
	http_requests_total{namespace="bank",pod="web-3",service="api",method="GET",version="2"} 0+13x40
	queue{namespace="shop",pod="web-1",topic="a"} 4x40
	queue{namespace="shop",pod="web-1",topic="b"} 6x40
	queue{namespace="shop",pod="web-2",topic="a"} 1x40
	queue{namespace="bank",pod="web-1",topic="a"} 100x40
	queue{namespace="bank",pod="web-3",topic="c"} 0x40
	limit{namespace="shop",pod="web-1"} 10x40
	limit{namespace="shop",pod="web-2"} 4x40
	limit{namespace="bank",pod="web-1"} 200x40
	seconds_bucket{namespace="shop",pod="web-1",le="1"} 0+1x40
	seconds_bucket{namespace="shop",pod="web-1",le="2"} 0+3x40
	seconds_bucket{namespace="shop",pod="web-1",le="+Inf"} 0+4x40
	seconds_bucket{namespace="bank",pod="web-1",le="1"} 0+4x40
	seconds_bucket{namespace="bank",pod="web-1",le="2"} 0+4x40
	seconds_bucket{namespace="bank",pod="web-1",le="+Inf"} 0+4x40
	info{namespace="shop",pod="web-1",node="n1"} 1x40
`

func newTarget(t testing.TB, query, series, namespace, object string) *target {
	t.Helper()
	q, err := newQueryTemplate(query)
	if err != nil {
		t.Fatal(err)
	}
	return &target{rule: &Rule{ID: "rules[0]", External: object == "", query: q}, series: series, namespace: namespace, object: object}
}

func selectorOf(t testing.TB, text string) k8slabels.Selector {
	t.Helper()
	s, err := k8slabels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// queryCase is a query, a series for it, and what keeps it from being asked for
// everything at once.
type queryCase struct{ query, series, special string }

var objectQueries = []queryCase{
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`, "queue", ""},
	{`sum by (<<.GroupBy>>) (rate(<<.Series>>{<<.LabelMatchers>>,method!="PUT"}[2m]))`, "http_requests_total", ""},
	{`sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<range $i, $l := .GroupBySlice>><<if $i>>,<<end>><<$l>><<end>>)`, "http_requests_total", "the template has variables"},
	{`<<.Series>>{<<.LabelMatchers>>,topic="a"}`, "queue", ""},
	{`<<.Series>>{<<.LabelMatchers>>}`, "queue", ""},
	{`max(<<.Series>>{<<.LabelMatchers>>}) by (pod)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) without (topic, namespace)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) without (pod)`, "queue", "sum does not keep the label pod"},
	{`sum(<<.Series>>{<<.LabelMatchers>>})`, "queue", "sum does not keep the label pod"},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) / on (pod) limit{<<.LabelMatchers>>}`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) / ignoring (namespace) limit{<<.LabelMatchers>>}`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) / limit{<<.LabelMatchers>>}`, "queue", "only one side of / has"},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod, namespace) / limit{<<.LabelMatchers>>}`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) / sum by (pod) (limit{<<.LabelMatchers>>})`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) or limit{<<.LabelMatchers>>}`, "queue", "only one side of or has"},
	{`(sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) or vector(0)) + (sum by (pod) (limit{<<.LabelMatchers>>}) or vector(0))`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) / on (pod) limit`, "queue", "limit is not narrowed"},
	{`<<.Series>>{<<.LabelMatchers>>} / on (pod) group_left sum(<<.Series>>{<<.LabelMatchers>>}) by (pod)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (pod) / on () group_left sum(<<.Series>>{<<.LabelMatchers>>})`, "queue", "does not match on the label pod"},
	{`histogram_quantile(0.9, sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (le, <<.GroupBy>>))`, "seconds_bucket", ""},
	{`quantile(0.5, <<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`, "queue", ""},
	{`topk(1, <<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) or vector(0)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) > bool 3`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) > 3`, "queue", ""},
	{`max_over_time(sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)[2m:15s])`, "queue", ""},
	{`-sum(<<.Series>>{<<.LabelMatchers>>} offset 1m) by (<<.GroupBy>>)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) and on (pod) info{<<.LabelMatchers>>}`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) unless on (pod) info{<<.LabelMatchers>>}`, "queue", ""},
	{`label_replace(sum(<<.Series>>{<<.LabelMatchers>>}) by (pod, topic), "pod", "web-1", "topic", "a")`, "queue", "writes the label"},
	{`label_replace(sum(<<.Series>>{<<.LabelMatchers>>}) by (pod), "x", "$1", "namespace", "(.*)") == 1`, "queue", "reads the label"},
	{`label_replace(sum(<<.Series>>{<<.LabelMatchers>>}) by (pod), "x", "$1", "pod", "(.*)")`, "queue", ""},
	{`absent(<<.Series>>{<<.LabelMatchers>>})`, "queue", "absent() loses"},
	{`sum(<<.Series>>{pod=~"<<index .LabelValuesByName "pod">>",namespace="<<index .LabelValuesByName "namespace">>"}) by (pod)`, "queue", "uses .LabelValuesByName"},
	{`count_values("pod", <<.Series>>{<<.LabelMatchers>>}) by (pod)`, "queue", "count_values writes"},
	{`<<if eq .LabelMatchers "x">>up<<else>>sum(<<.Series>>{<<.LabelMatchers>>}) by (pod)<<end>>`, "queue", "computes with .LabelMatchers"},
	{`sum by (pod) (<<.Series>>{<<.LabelMatchers>>}) * scalar(sum(<<.Series>>{<<.LabelMatchers>>}))`, "queue", "scalar() loses"},
	// As used for GPUs and model servers.
	{`ceil(avg_over_time(<<.Series>>{<<.LabelMatchers>>}[60s]))`, "queue", ""},
	{`rate(<<.Series>>{<<.LabelMatchers>>}[1m]) / 1000`, "http_requests_total", ""},
	{`avg(delta(<<.Series>>{<<.LabelMatchers>>}[2m])/(1+delta(http_requests_total{<<.LabelMatchers>>}[2m]))/1000) by (<<.GroupBy>>)`, "http_requests_total", ""},
	{`100 * sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) / sum(limit{<<.LabelMatchers>>}) by (<<.GroupBy>>)`, "queue", ""},
	{`(histogram_quantile(0.95, sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (le, <<.GroupBy>>)) >= 0) or vector(0)`, "seconds_bucket", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>} * on (namespace, pod) group_left(node) info{<<.LabelMatchers>>}) by (<<.GroupBy>>)`, "queue", ""},
	{`quantile_over_time(0.95, <<.Series>>{<<.LabelMatchers>>}[5m])`, "queue", ""},
	{`clamp_min(sum by (<<.GroupBy>>) (avg_over_time(<<.Series>>{<<.LabelMatchers>>}[2m:])), 1)`, "queue", ""},
	{`avg by (pod) (round(avg_over_time(<<.Series>>[1m])))`, "queue", "queue is not narrowed"},
	{`avg_over_time((1 - avg (irate(<<.Series>>{method="GET"}[5m])) by (pod))[10m:30s])`, "http_requests_total", "is not narrowed"},
	{`info{<<.LabelMatchers>>} * on () group_right(node) (sum(<<.Series>>{<<.LabelMatchers>>}) / on () sum(limit{<<.LabelMatchers>>}))`, "queue", "does not match on the label pod"},
}

// generals evaluates the query about everything for each template and selector,
// unless the template keeps it from being used, which special says.
func generals(t *testing.T, m memory, queries []queryCase, object string, selectors []string, with func(q string, tg *target, s k8slabels.Selector, all view)) {
	t.Helper()
	for _, q := range queries {
		tg := newTarget(t, q.query, q.series, "namespace", object)
		for _, sel := range selectors {
			selector := selectorOf(t, sel)
			general, err := tg.general(selector)
			if err != nil {
				t.Fatalf("%s: %v", q.query, err)
			}
			if (q.special == "") != (general.special == "") || !strings.Contains(general.special, q.special) {
				t.Errorf("%s: special %q, want %q", q.query, general.special, q.special)
			}
			if general.special == "" {
				all, _ := m.ask(t, general, at10m)
				with(fmt.Sprintf("%s %q", q.query, sel), tg, selector, all)
				some := *general
				some.query = general.within([]string{"shop", "bank", "void"})
				all, _ = m.ask(t, &some, at10m)
				with(fmt.Sprintf("some namespaces: %s %q", q.query, sel), tg, selector, all)
			}
		}
	}
}

const at10m = 10 * time.Minute

// special asks about some objects of one namespace alone.
func special(t *testing.T, m memory, tg *target, s k8slabels.Selector, ns string, pods []string) view {
	t.Helper()
	p, err := tg.specific(s, ns, pods, "asked")
	if err != nil {
		t.Fatal(err)
	}
	one, _ := m.ask(t, p, at10m)
	return one
}

// TestOneQueryForAllAnswersAsOneForEach is the ground that the sharing stands
// on: for each template the query about everything gives each object the value
// of the query about it alone, or it is not used.
func TestOneQueryForAllAnswersAsOneForEach(t *testing.T) {
	m := load(t, world)
	selectors := []string{"", "topic=a", "version in (1.2,2)", "topic!=a", "!node", "method"}
	generals(t, m, objectQueries, "pod", selectors, func(q string, tg *target, s k8slabels.Selector, all view) {
		for _, ns := range []string{"shop", "bank", "void"} {
			for _, pods := range [][]string{{"web-1"}, {"web-2"}, {"web-1", "web-2", "web-3"}} {
				one := special(t, m, tg, s, ns, pods)
				for _, pod := range pods {
					if got, want := reply(all, ns, pod), reply(one, ns, pod); got != want {
						t.Errorf("%s: %s/%s of %v: all at once %s, alone %s\n%s\n%s", q, ns, pod, pods, got, want, all.plan.value, one.plan.value)
					}
				}
			}
		}
	})
}

func reply(v view, namespace, object string) string {
	a, err := v.table.object(v.key(namespace, object), epoch.Add(at10m+time.Hour), 2*time.Minute)
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("%.9g", a.value)
}

// externalQueries and how many of them are asked for all namespaces at once.
var externalQueries = []queryCase{
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (topic)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>})`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)`, "queue", ""},
	{`<<.Series>>{<<.LabelMatchers>>}`, "queue", ""},
	{`sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))`, "http_requests_total", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) or vector(7)`, "queue", ""},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) by (topic) or (vector(7))`, "queue", "vector() loses"},
	{`(sum(<<.Series>>{<<.LabelMatchers>>}) or vector(0)) + (sum(limit{<<.LabelMatchers>>}) or vector(0))`, "queue", "vector() loses"},
	{`(sum(<<.Series>>{<<.LabelMatchers>>}) or (vector(7)))`, "queue", ""},
	{`topk(1, <<.Series>>{<<.LabelMatchers>>}) or vector(7)`, "queue", "vector() loses"},
	{`sum(<<.Series>>{<<.LabelMatchers>>}) or on () vector(7)`, "queue", "vector() loses"},
	{`scalar(sum(<<.Series>>{<<.LabelMatchers>>}))`, "queue", "vector() loses"},
	{`avg(<<.Series>>{<<.LabelMatchers>>}) / max(limit{<<.LabelMatchers>>})`, "queue", ""},
	{`avg(<<.Series>>{<<.LabelMatchers>>}) / on () max(limit{<<.LabelMatchers>>})`, "queue", ""},
	{`count(<<.Series>>)`, "queue", "queue is not narrowed"},
	// As used for gateways and brokers.
	{`sum(queue{topic="a"})`, "queue", "is not narrowed"},
	{`avg(<<.Series>>{<<.LabelMatchers>>}) by (topic, namespace)`, "queue", ""},
	{`label_replace(<<.Series>>{<<.LabelMatchers>>}, "__name__", "$1", "__name__", "^que(.*)$")`, "queue", ""},
	{`sum(min_over_time(queue{<<range $key, $value := .LabelValuesByName>><<if ne $key "namespace">><<$key>>="<<$value>>",<<end>><<end>>}[5m])) by (topic)`, "queue", "the template has variables"},
}

func TestExternalSumsAreThoseOfEachNamespace(t *testing.T) {
	m := load(t, world)
	selectors := []string{"", "topic=a", "topic notin (a,b)", "method=GET"}
	generals(t, m, externalQueries, "", selectors, func(q string, tg *target, s k8slabels.Selector, all view) {
		for _, ns := range []string{"shop", "bank", "void"} {
			one := special(t, m, tg, s, ns, nil)
			got, want := total(all, ns), total(one, "")
			if got != want {
				t.Errorf("%s: %s: all at once %s, alone %s\n%s\n%s", q, ns, got, want, all.plan.value, one.plan.value)
			}
			// v0.12.0 sends the special query, and the HPA sums its series.
			if v, err := m.query(t, one.plan.value, at10m); err != nil || summed(v) != want && want != "none" {
				t.Errorf("%s: %v is not the sum %s", one.plan.value, v, want)
			}
		}
	})
}

func total(v view, namespace string) string {
	a, err := v.table.sum(key{namespace: namespace}, epoch.Add(at10m+time.Hour), 2*time.Minute)
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("%.9g", a.value)
}

func summed(v prom.Vector) string {
	var sum float64
	for _, s := range v {
		sum += s.Value
	}
	return fmt.Sprintf("%.9g", sum)
}

// An object's series affect only its own value.
func TestOnlyWhatIsKnownIsServed(t *testing.T) {
	m := load(t, `
		queue{namespace="shop",pod="well"} 5x40
		queue{namespace="shop",pod="nan"} NaNx40
		queue{namespace="shop",pod="inf"} Infx40
		queue{namespace="shop",pod="huge"} 1e300x40
		queue{namespace="shop",pod="gone"} 5x10 stale
		queue{namespace="shop",pod="old"} 5x24 _x16
		queue{namespace="shop",pod="twice",c="a"} 0x40
		queue{namespace="shop",pod="twice",c="b"} 9x40
		queue{namespace="shop",pod="half",c="a"} NaNx40
		queue{namespace="shop",pod="half",c="b"} 3x40
		queue{namespace="shop",pod="minus"} -4x40
		queue{namespace="shop",pod="zero"} 0x40
	`)
	want := map[string]string{
		"well": "5", "nan": "the value is NaN", "inf": "the value is infinite", "huge": "out of range", "gone": "no series",
		"old": "4m0s old, more than 2m0s", "twice": "9", "half": "3", "minus": "-4", "zero": "0", "never": "no series",
	}
	for _, special := range []bool{false, true} {
		tg := newTarget(t, `<<.Series>>{<<.LabelMatchers>>}`, "queue", "namespace", "pod")
		p, err := tg.general(k8slabels.Everything())
		if special {
			var names []string
			for pod := range want {
				names = append(names, pod)
			}
			slices.Sort(names)
			p, err = tg.specific(k8slabels.Everything(), "shop", names, "asked")
		}
		if err != nil {
			t.Fatal(err)
		}
		v, dropped := m.ask(t, p, at10m)
		for pod, want := range want {
			a, err := v.table.object(v.key("shop", pod), epoch.Add(at10m+time.Hour), 2*time.Minute)
			got := fmt.Sprint(a.value)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				t.Errorf("special %t: %s: %s, want %s", special, pod, got, want)
			}
		}
		if dropped["nan"] != 2 || dropped["infinite"] != 1 || dropped["out_of_range"] != 1 || dropped["stale"] != 1 {
			t.Errorf("dropped %v", dropped)
		}
		// A table that Prometheus no longer renews grows old with its values.
		if _, err := v.table.object(v.key("shop", "well"), epoch.Add(13*time.Minute+time.Hour), 2*time.Minute); err == nil {
			t.Error("an answer three minutes old is served")
		}
	}
}

// A sum of which a part is unusable is no sum.
func TestASumNeedsAllItsParts(t *testing.T) {
	m := load(t, `
		lag{namespace="shop",topic="a"} 5x40
		lag{namespace="shop",topic="b"} NaNx40
		lag{namespace="bank",topic="a"} 5x40
		lag{namespace="bank",topic="b"} 6x40
	`)
	tg := newTarget(t, `sum(<<.Series>>{<<.LabelMatchers>>}) by (topic)`, "lag", "namespace", "")
	p, err := tg.general(k8slabels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := m.ask(t, p, at10m)
	if got := total(v, "shop"); got != "none" {
		t.Errorf("with half of it NaN: %s", got)
	}
	if got := total(v, "bank"); got != "11" {
		t.Errorf("%s", got)
	}
}

// The time of a value is that of the oldest sample in it; a rate of a target
// that is gone has none.
func TestValuesHaveTheirSamplesTime(t *testing.T) {
	m := load(t, `
		a_total{namespace="shop",pod="on"} 0+1x40
		a_total{namespace="shop",pod="late",c="x"} 0+1x40
		a_total{namespace="shop",pod="late",c="y"} 0+1x36 _x4
		a_total{namespace="shop",pod="off"} 0+1x36 stale _x4
	`)
	for query, want := range map[string]map[string]any{
		`sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)`:      {"on": time.Duration(0), "late": time.Minute, "off": "no present sample"},
		`sum(increase(<<.Series>>{<<.LabelMatchers>>}[10m])) by (<<.GroupBy>>)`: {"on": time.Duration(0), "late": time.Duration(0), "off": time.Duration(0)},
		`max(<<.Series>>{<<.LabelMatchers>>} offset 5m) by (<<.GroupBy>>)`:      {"on": time.Duration(0), "off": time.Duration(0)},
		`max_over_time(<<.Series>>{<<.LabelMatchers>>}[1m])`:                    {"on": time.Duration(0), "late": time.Minute},
	} {
		p, err := newTarget(t, query, "a_total", "namespace", "pod").general(k8slabels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		v, _ := m.ask(t, p, at10m)
		now := epoch.Add(10*time.Minute + time.Hour)
		for pod, want := range want {
			a, err := v.table.object(v.key("shop", pod), now, 2*time.Minute)
			switch want := want.(type) {
			case string:
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %s: %v, %v, want %s", query, pod, a, err, want)
				}
			case time.Duration:
				if err != nil || now.Sub(a.at) != want {
					t.Errorf("%s: %s: %v old, %v; want %s", query, pod, now.Sub(a.at), err, want)
				}
			}
		}
	}
}

func TestQuantitiesAreTruncatedLikeV0120(t *testing.T) {
	for v, want := range map[float64]string{
		16.66666: "16666m", 2.0004: "2", 0.0001: "1m", -0.0001: "-1m", 0: "0", 9e15: "9P", -1.5: "-1500m", math.Copysign(0, -1): "0",
	} {
		q := quantity(v)
		if got := q.String(); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}
