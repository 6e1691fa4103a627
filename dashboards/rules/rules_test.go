package rules_test

import (
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// Prometheus accepts every rule of the file.
func TestFile(t *testing.T) {
	groups, errs := rulefmt.Parse(rules.YAML(), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n := 0
	for _, g := range groups.Groups {
		n += len(g.Rules)
	}
	if n != len(rules.All()) {
		t.Errorf("the file has %d rules, want %d", n, len(rules.All()))
	}
}

var recorded = regexp.MustCompile(`^(cluster|pool|node|gpu|slice|namespace|pod):[a-z][a-z0-9_]*:(sum|count|max|avg|ratio|standing|rate5m|p95_(5m|30m))$`)

// A rule's name has its labels; what it reads is in the catalogue and read as its type
// requires; no rule reads another.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules.All() {
		if !recorded.MatchString(r.Record) || seen[r.Record] {
			t.Errorf("%s: no level:metric:operation, or twice", r.Record)
		}
		seen[r.Record] = true
		level, _, _ := strings.Cut(r.Record, ":")
		if level != "cluster" && !slices.Contains(r.Labels, level) {
			t.Errorf("%s: %q do not have its level", r.Record, r.Labels)
		}
		if !strings.HasSuffix(r.Help, ".") {
			t.Errorf("%s: %q is no sentence", r.Record, r.Help)
		}
		for _, name := range reads(t, r.Expr) {
			of, ok := typeOf(strings.TrimSuffix(name, "_bucket"))
			if !ok {
				t.Errorf("%s reads %s, which no program emits", r.Record, name)
			}
			if ranged := readOverTime(t, r.Expr, name); ranged == (of == metric.Gauge) {
				t.Errorf("%s: %s is a %s", r.Record, name, of)
			}
		}
	}
}

// typeOf is of a series of the catalogue.
func typeOf(name string) (metric.Type, bool) {
	if d, ok := metric.Find(name); ok {
		return d.Type, true
	}
	all := metric.Reads()
	i := slices.IndexFunc(all, func(r metric.Read) bool { return r.Name == name })
	if i < 0 {
		return "", false
	}
	return all[i].Type, true
}

// readOverTime reports whether an expression takes a series' growth over a time.
func readOverTime(t *testing.T, expr, name string) bool {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if m, ok := n.(*parser.MatrixSelector); ok {
			found = found || m.VectorSelector.(*parser.VectorSelector).Name == name
		}
		return nil
	})
	return found
}

// reads are the names of the series in an expression.
func reads(t *testing.T, query string) []string {
	t.Helper()
	names, err := eval.Reads(query)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var engine = memstore.NewEngine(nil)

func evaluate(t testing.TB, src storage.Queryable, r rules.Rule, at time.Time) promql.Vector {
	t.Helper()
	v, _, err := memstore.Instant(t.Context(), engine, src, r.Expr, at)
	if err != nil {
		t.Fatalf("%s: %v", r.Record, err)
	}
	slices.SortFunc(v, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
	return v
}

// TestTemperatures: dcgm-exporter's series have other names from 4.9.0 on.
func TestTemperatures(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, name := range []string{"DCGM_FI_DEV_%s_TEMP", "DCGM_FI_DEV_%s_TEMP_CELSIUS"} {
		page := `gpu_info{namespace="gpuscale-system",job="e",instance="i",node="n",gpu="0",model="H100",gpu_uuid="GPU-1"} 1` + "\n"
		for part, value := range map[string]int{"GPU": 61, "MEMORY": 67} {
			page += fmt.Sprintf(name+`{job="e",instance="i",UUID="GPU-1"} %d`+"\n", part, value)
		}
		src, err := memstore.Read(page, memstore.Until(at, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for record, want := range map[string]float64{"node:gpu_temperature_celsius:max": 61, "node:gpu_memory_temperature_celsius:max": 67} {
			r, _ := rules.Find(record)
			if v := evaluate(t, src, r, at); len(v) != 1 || v[0].F != want {
				t.Errorf("%s of %s: %v, want %v", record, name, v, want)
			}
		}
	}
}

// TestForged: a tenant's page that exposes every series of our programs changes no rule's result.
func TestForged(t *testing.T) {
	for _, s := range states.All() {
		for _, honor := range []bool{false, true} {
			for _, r := range rules.All() {
				want := fmt.Sprint(evaluate(t, s.Storage(honor), r, s.End()))
				for _, value := range []func(float64) float64{func(float64) float64 { return 0 }, func(v float64) float64 { return 1e6*v + 1 }} {
					if got := fmt.Sprint(evaluate(t, s.Forged(honor, value), r, s.End())); got != want {
						t.Errorf("%s in %s, honor_labels %v:\n%s\nwithout forged series:\n%s", r.Record, s.Name, honor, got, want)
					}
				}
			}
		}
	}
}

// TestValues compares every rule's series in every state with testdata/values.txt. Both
// ways of scraping give the same, no value is NaN, and each label is declared.
func TestValues(t *testing.T) {
	var got strings.Builder
	for _, s := range states.All() {
		for _, r := range rules.All() {
			v := evaluate(t, s.Storage(false), r, s.End())
			fmt.Fprintf(&got, "%s %s\n", s.Name, r.Record)
			for _, one := range v {
				if math.IsNaN(one.F) || math.IsInf(one.F, 0) {
					t.Errorf("%s in %s: %s is %v", r.Record, s.Name, one.Metric, one.F)
				}
				one.Metric.Range(func(l labels.Label) {
					if l.Name != "cluster" && !slices.Contains(r.Labels, l.Name) {
						t.Errorf("%s in %s has a label %s", r.Record, s.Name, l.Name)
					}
				})
				fmt.Fprintf(&got, "  %s %.5g\n", one.Metric.MatchLabels(false, "cluster"), one.F)
			}
			honored := evaluate(t, s.Storage(true), r, s.End())
			if a, b := fmt.Sprint(v), fmt.Sprint(honored); a != b {
				t.Errorf("%s in %s:\nwithout honor_labels %s\nwith it %s", r.Record, s.Name, a, b)
			}
		}
	}
	golden.Equal(t, "testdata/values.txt", got.String())
}

// Every rule has series in some state.
func TestEveryRuleSaysSomething(t *testing.T) {
	for _, r := range rules.All() {
		if !slices.ContainsFunc(states.All(), func(s states.State) bool {
			for at := s.Start().Add(5 * time.Minute); !at.After(s.End()); at = at.Add(5 * time.Minute) {
				if len(evaluate(t, s.Storage(true), r, at)) > 0 {
					return true
				}
			}
			return false
		}) {
			t.Errorf("%s has no series in any state", r.Record)
		}
	}
}

// either are the rules for which one of their families is enough: GPUs or slices, one
// kind of server or another, a GPU that has lost its name, a name of dcgm-exporter before
// and from 4.9.0 on. Without all of them they have no series.
var either = map[string][]string{
	"gpu:gpu_unhealthy:max":                   {metric.GPUInfo.Name, metric.GPUHealthy.Name},
	"node:gpu_temperature_celsius:max":        {metric.DCGMTemperature.Name, metric.DCGMTemperatureNew.Name},
	"node:gpu_memory_temperature_celsius:max": {metric.DCGMMemoryTemperature.Name, metric.DCGMMemoryTemperatureNew.Name},
	"pod:gpu_busy_ratio:avg":                  {metric.GPUBusyRatio.Name, metric.GPUInstanceBusyRatio.Name},
	"pod:llm_first_token_seconds:p95_5m":      {metric.VLLMFirstToken.Name, metric.SGLangFirstToken.Name, metric.TRTLLMFirstToken.Name},
}

// Without a family its rules have no series: nothing becomes 0. A slice of unknown
// allocation is still shown, as unknown, which TestSlicesWithoutAttribution covers.
func TestNothingIsMadeOfNothing(t *testing.T) {
	for _, s := range states.All() {
		for _, r := range rules.All() {
			for _, name := range reads(t, r.Expr) {
				family := strings.TrimSuffix(name, "_bucket")
				without := s.Without(family)
				if among := either[r.Record]; slices.Contains(among, family) {
					for _, other := range among {
						without = without.Without(other)
					}
				}
				if r.Record == rules.SliceStanding && family != metric.GPUInfo.Name && family != metric.GPUInstanceInfo.Name {
					continue
				}
				if r.Record == rules.SliceStanding {
					without = without.Without(metric.GPUInfo.Name).Without(metric.GPUInstanceInfo.Name)
				}
				if v := evaluate(t, without.Storage(true), r, s.End()); len(v) > 0 {
					t.Errorf("%s in %s: without %s it still has %v", r.Record, s.Name, family, v)
				}
			}
		}
	}
}
