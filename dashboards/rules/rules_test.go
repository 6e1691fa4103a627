package rules_test

import (
	"fmt"
	"log/slog"
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
	"github.com/gpuscale/gpuscale/gpu/metric"
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
