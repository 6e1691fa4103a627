package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/require"
)

// everything uses each field of a rule once.
func everything(t testing.TB) string {
	raw, err := os.ReadFile("testdata/rule.yaml")
	require.NoError(t, err)
	return string(raw)
}

// ruleOf reads a file with one rule, and returns that and its problems.
func ruleOf(t testing.TB, text string) (signal.Rule, error) {
	t.Helper()
	f, err := Read("c.yaml", []byte("backends: [{name: default, url: 'http://x'}, {name: models, url: 'http://y'}]\nrules:\n- "+strings.ReplaceAll(text, "\n", "\n  ")))
	if err != nil {
		return signal.Rule{}, err
	}
	last := f.Rules[len(f.Rules)-1]
	return last.Rule, f.Err()
}

func TestARuleCanSayEverything(t *testing.T) {
	r, err := ruleOf(t, everything(t))
	require.NoError(t, err)
	// Query and Namespaces are those of testdata/files; Apart, Unless and Lives those of the built-in rules. A field
	// with its zero value was not read.
	r.Follow = 1 // the file's, since the rule has no maxAge
	for _, v := range []reflect.Value{reflect.ValueOf(r), reflect.ValueOf(r.Sources[0]), reflect.ValueOf(*r.Sources[0].Absent), reflect.ValueOf(*r.Sources[0].Idle)} {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).IsZero() && name != "Over" && name != "Value" && name != "Query" && name != "Without" && name != "Namespaces" && name != "Apart" && name != "Unless" && name != "Lives" {
				t.Errorf("%s.%s is lost", v.Type(), name)
			}
		}
	}
	if s := r.Sources[1]; s.Form != signal.Rate || s.Over != "my_count_total" || s.Rank() != 1 || len(s.Without) != 1 {
		t.Errorf("%+v", s)
	}
	if w := r.Sources[0].Idle.While; len(w) != 1 || w[0].Metric != "my_queue" || len(w[0].Matchers) != 1 {
		t.Errorf("idle while %+v", w)
	}
	for _, promql := range append(r.Queries(true), r.Query()) {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(promql); err != nil {
			t.Errorf("%s: %v", promql, err)
		}
	}
}

func TestLikeABuiltinRule(t *testing.T) {
	r, err := ruleOf(t, `{name: queue_that_wakes, like: queue_depth, activation: 5}`)
	require.NoError(t, err)
	var want signal.Rule
	for _, b := range signal.Builtin(0) {
		if b.Name == "queue_depth" {
			want = b
		}
	}
	want.Name, want.Activation, want.Exporters = "queue_that_wakes", 5, trust.From(Default().ExporterNamespaces)
	Default().age(&want)
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v\nwant %+v", r, want)
	}
	if _, err := ruleOf(t, `{name: x, like: queue_dept}`); err == nil || !strings.Contains(err.Error(), `like: no built-in rule is called "queue_dept"; there are ["gpu_busy"`) {
		t.Error(err)
	}
}

// The example of the page loads unchanged.
func TestDocumentedRules(t *testing.T) {
	page, err := os.ReadFile("../../docs/signals.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "```yaml\n")
	example, _, ended := strings.Cut(example, "```")
	if !found || !ended {
		t.Fatal("docs/signals.md has no example")
	}
	f, err := Read("signals.md", []byte("prometheus: {url: http://prometheus}\n"+example))
	require.NoError(t, err)
	require.NoError(t, f.Err())
	if own := len(f.Rules) - len(signal.Builtin(time.Minute)); own != 5 {
		t.Errorf("%d rules of one's own, want the page's 5", own)
	}
}
