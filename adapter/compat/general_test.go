package compat

import (
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// world has two namespaces with pods of the same names, several series each, a
// pod that one namespace lacks, and a histogram.
//
//go:embed testdata/world.series
var world string

func newTarget(t testing.TB, query, series, namespace, object string) *target {
	t.Helper()
	q, err := newQueryTemplate(query)
	require.NoError(t, err)
	return &target{rule: &Rule{ID: "rules[0]", External: object == "", query: q}, series: series, namespace: namespace, object: object}
}

func selectorOf(t testing.TB, text string) k8slabels.Selector {
	t.Helper()
	s, err := k8slabels.Parse(text)
	require.NoError(t, err)
	return s
}

// queryCase is a query, a series for it, and why it is not sent about all objects at once.
type queryCase struct{ query, series, special string }

// queriesOf reads "series: query  => special" of each line.
func queriesOf(t *testing.T, file string) (all []queryCase) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		series, rest, _ := strings.Cut(line, ": ")
		query, special, _ := strings.Cut(rest, "  => ")
		if !strings.HasPrefix(line, "#") {
			all = append(all, queryCase{query, series, special})
		}
	}
	return all
}

// generals evaluates the query about all objects for each template and selector, unless special gives a reason against
// it.
func generals(t *testing.T, m memory, queries []queryCase, object string, selectors []string, with func(q string, tg *target, s k8slabels.Selector, ns string, all view)) {
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
			for _, ns := range []string{"shop", "bank", "void"} {
				if general.special == "" {
					with(fmt.Sprintf("%s %q", q.query, sel), tg, selector, ns, m.ask(t, general, at10m, ns))
					some := *general
					some.query = general.within([]string{"shop", "bank", "void"})
					with(fmt.Sprintf("some namespaces: %s %q", q.query, sel), tg, selector, ns, m.ask(t, &some, at10m, ns))
				}
			}
		}
	}
}

const at10m = 10 * time.Minute

// special queries some objects of one namespace.
func special(t *testing.T, m memory, tg *target, s k8slabels.Selector, ns string, pods []string) view {
	t.Helper()
	p, err := tg.specific(s, ns, pods, "asked")
	require.NoError(t, err)
	return m.ask(t, p, at10m, ns)
}

// TestOneQueryForAllAnswersAsOneForEach justifies the sharing of queries: for each template the query about all objects
// gives each object the value of the query about that object alone, or is not used.
func TestOneQueryForAllAnswersAsOneForEach(t *testing.T) {
	m := load(t, world)
	selectors := []string{"", "topic=a", "version in (1.2,2)", "topic!=a", "!node", "method"}
	generals(t, m, queriesOf(t, "object-queries.txt"), "pod", selectors, func(q string, tg *target, s k8slabels.Selector, ns string, all view) {
		for _, pods := range [][]string{{"web-1"}, {"web-2"}, {"web-1", "web-2", "web-3"}} {
			one := special(t, m, tg, s, ns, pods)
			for _, pod := range pods {
				if got, want := reply(all, pod), reply(one, pod); got != want {
					t.Errorf("%s: %s/%s of %v: all at once %s, alone %s\n%s\n%s", q, ns, pod, pods, got, want, all.plan.value, one.plan.value)
				}
			}
		}
	})
}

func reply(v view, object string) string {
	a, err := v.answer(object, epoch.Add(at10m+time.Hour), object)
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("%.9g", a.Value)
}

func TestExternalSumsAreThoseOfEachNamespace(t *testing.T) {
	m := load(t, world)
	selectors := []string{"", "topic=a", "topic notin (a,b)", "method=GET"}
	generals(t, m, queriesOf(t, "external-queries.txt"), "", selectors, func(q string, tg *target, s k8slabels.Selector, ns string, all view) {
		one := special(t, m, tg, s, ns, nil)
		got, want := reply(all, ns), reply(one, ns)
		if got != want {
			t.Errorf("%s: %s: all at once %s, alone %s\n%s\n%s", q, ns, got, want, all.plan.value, one.plan.value)
		}
		// v0.12.0 sends the special query, and the HPA adds up its series.
		if v, err := m.query(t, one.plan.value, at10m); err != nil || summed(v) != want && want != "none" {
			t.Errorf("%s: %v is not the sum %s", one.plan.value, v, want)
		}
	})
}

func summed(v prom.Vector) string {
	var sum float64
	for _, s := range v {
		sum += s.Value
	}
	return fmt.Sprintf("%.9g", sum)
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
