package signal

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// selectorsIn returns every selector of a PromQL expression.
func selectorsIn(t *testing.T, promql string) []*parser.VectorSelector {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(promql)
	if err != nil {
		t.Fatalf("%s: %v", promql, err)
	}
	var found []*parser.VectorSelector
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			found = append(found, s)
		}
		return nil
	})
	return found
}

func has(s *parser.VectorSelector, op labels.MatchType, name, value string) bool {
	for _, m := range s.LabelMatchers {
		if m.Type == op && m.Name == name && m.Value == value {
			return true
		}
	}
	return false
}

// FuzzHint: for any namespace and selector, the PromQL parses, reads one metric, and restricts each of its selectors to
// that namespace.
func FuzzHint(f *testing.F) {
	f.Add("chat", "model_name=llama")
	f.Add(`a"} or {x="`, "k in (a,b)")
	f.Add("chat", "namespace=other")
	f.Add("chat", "a.b/c notin (x.y,z)")
	f.Add("chat", `!x,y,z!=1`)
	f.Fuzz(func(t *testing.T, namespace, text string) {
		selector, err := k8slabels.Parse(text)
		if err != nil {
			return
		}
		for _, r := range []Rule{builtin(t, "queue_depth"), builtin(t, "gpu_busy")} {
			promql := r.Hint(namespace, selector)
			if promql == "" {
				continue
			}
			for _, s := range selectorsIn(t, promql) {
				if s.Name != r.Sources[0].Metric {
					t.Errorf("%s reads %s", promql, s.Name)
				}
				if !has(s, labels.MatchEqual, "namespace", namespace) && !has(s, labels.MatchEqual, "exported_namespace", namespace) {
					t.Errorf("%s leaves namespace %q", promql, namespace)
				}
			}
		}
	})
}

// FuzzQuery: a configured name, label or matcher stays one, in every place.
func FuzzQuery(f *testing.F) {
	f.Add("my_queue", "job", "batch")
	f.Add(`x"} or up{a="`, `l"}`, `"} or vector(0) #`)
	f.Add("dots.and spaces", "k8s.io/name", "`")
	f.Add("le", "le", "+Inf")
	f.Fuzz(func(t *testing.T, metric, label, value string) {
		if label == labels.MetricName || label == "" || !utf8.ValidString(label+value) {
			return
		}
		only := Matchers{{Label: label, Op: "=", Value: value}}
		same := Series{Metric: metric, Matchers: only}
		r := builtin(t, "ttft_p95")
		r.Sources = []Source{
			{
				Metric: metric, Over: metric, Matchers: only, Identity: []string{label},
				Idle: &Idle{While: []Series{same, same}}, Absent: &Absent{While: Evidence{Series: same, Is: new(float64), Label: label, From: label}},
			},
			{Metric: metric, Form: Rate, Over: metric, Matchers: only},
			{Metric: metric, Form: Quantile, Quantile: .5, Matchers: only, Identity: []string{label}},
			{Metric: metric, Form: Mean, Matchers: only, Identity: []string{label}},
		}
		if r.Validate() != nil {
			return
		}
		for _, promql := range []string{r.Query(), r.Query("chat", value), strings.Join(r.Queries(true), " or "), strings.Join(r.Queries(true, "chat"), " or ")} {
			selectors := selectorsIn(t, promql)
			if want := 3 + (1 + 2*2) + 2 + (2*2 + 1) + (2*2 + 2) + (2*3 + 2); len(selectors) != want {
				t.Fatalf("%s has %d selectors, not %d", promql, len(selectors), want)
			}
			for _, s := range selectors {
				named := func(suffix string) bool { return has(s, labels.MatchEqual, labels.MetricName, metric+suffix) }
				if !slices.ContainsFunc([]string{"", "_bucket", "_sum", "_count"}, named) || !has(s, labels.MatchEqual, label, value) || !has(s, labels.MatchNotEqual, podLabel, "") || !has(s, labels.MatchEqual, PartLabel, "") {
					t.Errorf("%s is not about %q{%q=%q}", promql, metric, label, value)
				}
			}
		}
	})
}

// FuzzRead: for any answer, a table has a valid number of the pod's own series, as fresh as the rule requires, or none.
func FuzzRead(f *testing.F) {
	f.Add("v0", "t0", "chat", "a", 3.0, 1_700_000_000.0)
	f.Add("v0", "n0", "chat", "a", math.NaN(), 1_700_000_000.0)
	f.Add("a10", "t10", "chat", "", 1_700_000_000.0, math.Inf(1))
	f.Add("v99", "", "", "a", 1e300, -1.0)
	f.Fuzz(func(t *testing.T, part, other, namespace, pod string, value, beside float64) {
		now := time.Unix(1_700_000_000, 0)
		ls := labels.FromStrings("namespace", namespace, "pod", pod)
		for _, rule := range Builtin(maxAge) {
			table, dropped := NewTable(rule).Read([]Sample{{part, ls, value}, {other, ls, beside}}, Reading{Evaluated: now, Now: now})
			for reason, n := range dropped {
				if !slices.Contains(Reasons(), reason) || n < 1 {
					t.Errorf("%s: dropped %d for %q", rule.Name, n, reason)
				}
			}
			a, err := table.Pod(Key{namespace, pod}, k8slabels.Everything(), now)
			if err != nil {
				continue
			}
			if !(a.Value >= rule.Minimum && a.Value <= rule.Maximum) || now.Sub(a.Time) > maxAge || a.Time.After(now) {
				t.Errorf("%s: %+v", rule.Name, a)
			}
			if namespace == "" || rule.Subject != Namespace && pod == "" {
				t.Errorf("%s: %+v without a user", rule.Name, a)
			}
			if a.Declared == 0 && (part == "" || part[0] != 'v') && (other == "" || other[0] != 'v') {
				t.Errorf("%s: %+v of no value", rule.Name, a)
			}
		}
	})
}
