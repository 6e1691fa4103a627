package signal

import (
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

// FuzzHint: whatever the namespace and the selector, the PromQL parses, reads
// one metric, and each of its selectors is held to that namespace.
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
			promql, err := r.Hint(namespace, selector)
			if err != nil {
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

// FuzzQuery: a configured name or matcher stays a name or matcher.
func FuzzQuery(f *testing.F) {
	f.Add("my_queue", "job", "batch")
	f.Add(`x"} or up{a="`, `l"}`, `"} or vector(0) #`)
	f.Add("dots.and spaces", "k8s.io/name", "`")
	f.Fuzz(func(t *testing.T, metric, label, value string) {
		r := builtin(t, "queue_depth")
		m, err := labels.NewMatcher(labels.MatchEqual, label, value)
		if err != nil || label == labels.MetricName || label == "" {
			return
		}
		r.Sources = []Source{{Metric: metric, Over: metric, Matchers: []*labels.Matcher{m}}}
		if r.Validate() != nil || !validUTF8(label, value) {
			return
		}
		selectors := selectorsIn(t, r.Query())
		if len(selectors) != 3 {
			t.Fatalf("%s has %d selectors", r.Query(), len(selectors))
		}
		for _, s := range selectors {
			if !has(s, labels.MatchEqual, labels.MetricName, metric) || !has(s, labels.MatchEqual, label, value) ||
				!has(s, labels.MatchNotEqual, podLabel, "") {
				t.Errorf("%s is not about %q{%q=%q}", r.Query(), metric, label, value)
			}
		}
	})
}

// FuzzNamespace: an external answer holds nothing of another namespace.
func FuzzNamespace(f *testing.F) {
	f.Add("model_name=y")
	f.Add("namespace=other")
	f.Add("pod!=a")
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := k8slabels.Parse(text)
		if err != nil {
			return
		}
		now := time.Unix(1_700_000_000, 0)
		table := NewTable(builtin(t, "queue_depth"))
		own := labels.FromStrings("namespace", "chat", "pod", "a", "model_name", "y")
		foreign := labels.FromStrings("namespace", "other", "pod", "a", "model_name", "y")
		table.add(Key{"chat", "a"}, point{labels: own, value: 1, at: now})
		table.add(Key{"other", "a"}, point{labels: foreign, value: 1000, at: now})
		if a, err := table.Namespace("chat", selector, now, func(string) bool { return true }); err == nil && a.Value != 1 {
			t.Errorf("%q reads %v", text, a.Value)
		}
	})
}

func validUTF8(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}
