package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

func read(t testing.TB, name string) *File {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	f, err := Parse(name, raw)
	require.NoError(t, err)
	return f
}

func TestDocumentedConfigurationsLoadUnchanged(t *testing.T) {
	for name, want := range map[string]struct {
		custom, external int
		resource         bool
	}{
		"sample.yaml":             {4, 2, false},
		"walkthrough.yaml":        {1, 0, false},
		"config-walkthrough.yaml": {1, 0, false},
		"external.yaml":           {0, 2, false},
		"resource.yaml":           {0, 0, true},
		"default.yaml":            {6, 0, true},
		"wild.yaml":               {3, 2, false},
	} {
		f := read(t, name)
		if err := f.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		external := 0
		for _, r := range f.Rules {
			if r.External {
				external++
			}
		}
		if len(f.Rules) != want.custom+want.external || external != want.external || f.ResourceRules != want.resource {
			t.Errorf("%s: %d rules, %d of them external, resourceRules %t; want %+v", name, len(f.Rules), external, f.ResourceRules, want)
		}
	}
}

// The published sample has double quotes within double quotes. v0.12.0 does not load it either; the error names the
// place (the library counts from 0) and the remedy.
func TestPublishedSampleIsNoYAML(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "sample-as-published.yaml"))
	require.NoError(t, err)
	_, err = Parse("sample.yaml", raw)
	if err == nil || !strings.Contains(err.Error(), "line 8") || !strings.Contains(err.Error(), "in single quotes") {
		t.Errorf("%v", err)
	}
}

const goodRule = `
- seriesQuery: 'up{namespace!="",pod!=""}'
  resources: {template: "<<.Resource>>"}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
`

// Each invalid rule is reported with its line and field, and the valid one beside it is served.
func TestABrokenRuleStandsAlone(t *testing.T) {
	for broken, want := range map[string]string{
		"- {}": "rules[1].seriesQuery: is required",
		"- seriesQuery: 'up{'\n  metricsQuery: up\n  resources: {template: <<.Resource>>}":                   ":5: rules[1].seriesQuery",
		"- seriesQuery: up\n  nonsense: 1":                                                                   ":6: rules[1].nonsense: unknown field",
		"- seriesQuery: up\n  seriesQuery: down":                                                             ":6: rules[1].seriesQuery: is already set above",
		"- seriesQuery: up\n  seriesFilters: [{is: a, isNot: b}]":                                            ":6: rules[1].seriesFilters[0]: cannot have both",
		"- seriesQuery: up\n  seriesFilters:\n  - is: ok\n  - is: '('":                                       ":8: rules[1].seriesFilters[1]: unable to compile series filter",
		"- seriesQuery: up\n  name: {matches: '(a)(b)'}":                                                     "rules[1].name.as: is required: name.matches has 2 groups",
		"- seriesQuery: up\n  name:\n    matches: '['":                                                       ":7: rules[1].name.matches",
		"- seriesQuery: up\n  resources: {template: 'x'}":                                                    "rules[1].resources.template: unable to generate label format",
		"- seriesQuery: up\n  resources: {overrides: {pod: {group: apps}}}":                                  "rules[1].resources.overrides.pod: resource is required",
		"- seriesQuery: up\n  resources: {overrides: [pod]}":                                                 ":6: rules[1].resources.overrides: is a list, not a mapping",
		"- seriesQuery: up\n  resources: {overrides: {namespace: {resource: namespace}, namespaced: false}}": ":6: rules[1].resources.overrides.namespaced: is true or false, not a mapping",
		"- seriesQuery: up\n  resources: {namespaced: perhaps}":                                              ":6: rules[1].resources.namespaced: is text, not true or false",
		"- seriesQuery: up\n  metricsQuery: up":                                                              "rules[1].resources: neither template nor overrides",
		"- seriesQuery: up\n  resources: {template: <<.Resource>>}\n  metricsQuery: sum(<<.Serie>>)":         ":7: rules[1].metricsQuery: executing the template",
		"- seriesQuery: up\n  resources: {template: <<.Resource>>}\n  metricsQuery: sum(<<.Series>>":         `rules[1].metricsQuery: renders to "sum(up", which is not PromQL`,
		"- seriesQuery: up\n  resources: {template: <<.Resource>>}\n  metricsQuery: <<range 1000>>":          "rules[1].metricsQuery: is no template: template: query:1",
		"- seriesQuery: up\n  resources: {template: <<.Resource>>}\n  metricsQuery: <<if true>><<end>>":      "rules[1].metricsQuery: the template renders to nothing",
		"- up":                ":5: rules[1]: is not a mapping",
		"- seriesQuery: [up]": ":5: rules[1].seriesQuery: is a list, not text",
		"- seriesQuery: up\n  seriesFilters: {a: 1}": ":6: rules[1].seriesFilters: is a mapping, not a list",
	} {
		f, err := Parse("pa.yaml", []byte("rules:"+goodRule+broken))
		if err != nil {
			t.Errorf("%s: nothing of the file is used: %v", broken, err)
			continue
		}
		if good := f.good(); len(good) != 1 || good[0].ID != "rules[0]" {
			t.Errorf("%s: %d rules are left", broken, len(good))
		}
		if err := f.Err(); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "pa.yaml:") {
			t.Errorf("%s:\n%v\nwant …%s…", broken, err, want)
		}
	}
}

func TestTemplatesHaveAllOfGosLanguage(t *testing.T) {
	for text, want := range map[string]string{
		`<<range $i, $l := .GroupBySlice>><<if $i>>,<<end>><<$l>><<end>>`:     "pod,node",
		`<<range slice .GroupBySlice 1>>max by (<<.>>) (<<$.Series>>)<<end>>`: "max by (node) (up)",
		`<<define "a">>rate(<<.Series>>[5m])<<end>>sum(<<template "a" .>>)`:   "sum(rate(up[5m]))",
	} {
		q, err := newQueryTemplate(text)
		require.NoError(t, err)
		if got, err := q.render(Args{Series: "up", GroupBySlice: []string{"pod", "node"}}); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestAFileOfAnotherKind(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"# nothing\n":                  "",
		"rules:\n":                     "",
		"rules: 5":                     "pa.yaml:1: rules: is not a list",
		"rule: []":                     "pa.yaml:1: rule: unknown field",
		"rules: []\nrules: []":         "is already set above",
		"resourceRules: {cpu: {x: 1}}": "",
	} {
		f, err := Parse("pa.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err := f.Err(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"- a", "a", "\t", "a: [", "a: *b"} {
		if _, err := Parse("pa.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "pa.yaml") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParse: for any file, parsing ends without a panic, every rule is usable or has a problem, and a usable rule
// renders PromQL.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"sample.yaml", "default.yaml", "external.yaml", "resource.yaml", "sample-as-published.yaml"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(string(raw))
	}
	f.Add("a: &a {<<: *a}\nrules: [*a]")
	f.Add("?")   // an empty key
	f.Add("<<:") // a merge of nothing
	f.Add("rules:\n- &r {seriesQuery: up, metricsQuery: 'up{<<.LabelMatchers>>}', resources: {template: '<<.Resource>>'}}\n- *r")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		for _, p := range file.problems() {
			if p.Err == nil || p.Line == 0 || p.Path == "" {
				t.Fatalf("%+v", p)
			}
		}
		for _, r := range file.good() {
			require.NoError(t, r.rehearse())
		}
	})
}
