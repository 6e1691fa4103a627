package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/sigv4"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestChartKnowsTheFields: the chart's schema has the fields of this configuration, and those of a server that all
// programs query, so that Helm refuses any other field.
func TestChartKnowsTheFields(t *testing.T) {
	const file = "../../deploy/chart/gpuscale/values.schema.json"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, of := range map[string]reflect.Type{
		"adapterConfig": reflect.TypeFor[struct {
			Config
			Rules []Rule `json:"rules"`
		}](),
		"prometheusClient": reflect.TypeFor[prom.Config](),
		"HTTPClientConfig": reflect.TypeFor[config.HTTPClientConfig](),
		"SigV4Config":      reflect.TypeFor[sigv4.SigV4Config](),
	} {
		made, err := chart.Configured(text, name, of)
		require.NoError(t, err)
		text = []byte(made)
	}
	golden.Equal(t, file, string(text))
}

// TestFiles reads the files in testdata/files/*.txt as c.yaml, with the option url as the flags' --prometheus-url, and
// prints their problems or their contents. -rewrite writes the outputs again.
func TestFiles(t *testing.T) {
	datadriven.Walk(t, "testdata/files", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f, err := Read("c.yaml", []byte(d.Input), func(c *Config) { d.MaybeScanArgs(t, "url", &c.Prometheus.URL) })
			if err != nil {
				return err.Error()
			}
			for _, r := range f.Signals() {
				if _, err := parser.NewParser(parser.Options{}).ParseExpr(r.Query()); err != nil {
					t.Errorf("%s: %v", r.Query(), err)
				}
			}
			return described(f)
		})
	})
}

// described prints the backends, the file's own rules, and the problems of the rejected rules.
func described(f *File) string {
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	for _, b := range f.Config.All() {
		name, s := b.Name, b.Config
		say("backend %s: %s %s, timeout %s, parameters %v", name, cmp.Or(s.Method, "POST"), s.URL, cmp.Or(s.Timeout, prom.DefaultTimeout), s.Parameters)
		if p := b.NamespaceParameter; p != "" {
			say("  namespace in the parameter %s", p)
		}
		if s.SigV4 != nil {
			say("  signed for %s as %s", s.SigV4.Region, s.SigV4.RoleARN)
		}
		if s.HTTP.Authorization != nil {
			say("  credentials in %s", s.HTTP.Authorization.CredentialsFile)
		}
		if s.HTTP.HTTPHeaders != nil {
			for name, h := range s.HTTP.HTTPHeaders.Headers {
				say("  header %s: %v %v", name, h.Values, h.Files)
			}
		}
	}
	c := f.Config.Cache()
	say("every %s, idle after %s", c.Interval, c.IdleAfter)
	if p := f.Config.PrometheusAdapter; p.Enabled() {
		say("prometheus-adapter's rules in %s", p.ConfigFile)
	}
	good := f.Signals()
	for _, b := range signal.Builtin(LeastMaxAge) {
		if !slices.ContainsFunc(good, func(r signal.Rule) bool { return r.Name == b.Name }) {
			say("no rule %s", b.Name)
		}
	}
	for i, r := range good {
		if x := r.Exporters; !slices.Equal(x, trust.From(Default().ExporterNamespaces)) && (i == 0 || !slices.Equal(x, good[i-1].Exporters)) {
			say("exporters are trusted in %q, everywhere: %t", x, x == nil)
		}
	}
	for _, d := range f.Rules {
		if r := d.Rule; d.Line > 0 && len(d.Problems) == 0 {
			say("rule %s of backend %s: about %v, duplicates %v, parts of a pod %v, pods %v, no older than %s",
				r.Name, cmp.Or(r.Backend, cache.DefaultBackend), r.Subject, r.Duplicates, r.PerPod, r.PerWorkload, r.MaxAge)
			for _, s := range r.Sources {
				say("  %s × %v", s.Metric, *cmp.Or(s.Scale, new(1.0)))
				if s.Query != "" {
					say("  %s", r.Query("shop"))
				}
			}
		}
	}
	if err := f.Err(); err != nil {
		say("%v", err)
	}
	return out.String()
}

// FuzzParse: a file is refused with a reason, or gives rules whose queries Prometheus can parse.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/files/*.txt")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		for block := range strings.SplitSeq(string(text), "\nread") {
			_, block, _ = strings.Cut(block, "\n")
			seed, _, _ := strings.Cut(block, "\n----\n")
			f.Add(seed)
		}
	}
	for _, rule := range []string{
		everything(f), `{name: a, subject: target, sources: [{metric: 'x"}', over: y}], perPod: sum, perWorkload: sum}`, `{name: a, like: ttft_p95, window: 5m}`,
		`{name: a, labels: {pod: 'x"'}, query: 'sum by (pod, "x\"") (rate(a{namespace=~"$namespaces"}[5m] offset 1m)) / b{n="$namespaces"}'}`,
		`{name: a, like: queue_depth, identity: ["a b", 'x"}'], sources: [{metric: 'm"', absent: {while: {metric: up}, label: 'a"', from: "$1"}}]}`,
	} {
		f.Add("prometheus: {url: http://x}\nrules:\n- " + strings.ReplaceAll(rule, "\n", "\n  "))
	}
	for _, seed := range []string{`rules: [{maximum: .nan}]`, "{rules: [{seriesQuery: x}], interval: 1s}", "a: &a [*a]", "<<: {}", "rules: [[], 1, null]", "---\n---"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read("fuzz.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, r := range file.Signals() {
			for _, promql := range append(r.Queries(true), r.Query()) {
				if _, err := parser.NewParser(parser.Options{}).ParseExpr(promql); err != nil {
					t.Errorf("%s: %v", promql, err)
				}
			}
		}
		for _, r := range file.Rules {
			for _, p := range r.Problems {
				if p.File == "" || p.Line == 0 || !strings.HasPrefix(p.Path, "rules[") {
					t.Errorf("a rule's problem without its place: %v", p)
				}
			}
		}
	})
}
