package rules_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
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

// A rule's name has its level, and the labels of it. What it reads is package lint's.
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
	}
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
		require.NoError(t, err)
		for record, want := range map[string]float64{"node:gpu_temperature_celsius:max": 61, "node:gpu_memory_temperature_celsius:max": 67} {
			r, _ := rules.Find(record)
			if v := evaluate(t, src, r, at); len(v) != 1 || v[0].F != want {
				t.Errorf("%s of %s: %v, want %v", record, name, v, want)
			}
		}
	}
}

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// big is 1,250 nodes of eight GPUs as their exporters and the autoscaler show them:
// ten minutes of what the rules read, in 100 namespaces and 20 pools.
func big() *memstore.DB {
	var page []memstore.Exposed
	var growth []float64 // of each series, each 15 s
	add := func(name string, value, grows float64, pairs ...string) {
		page = append(page, memstore.Exposed{Labels: labels.FromStrings(append([]string{labels.MetricName, name}, pairs...)...), Value: value})
		growth = append(growth, grows)
	}
	for n := range 1250 {
		node := fmt.Sprintf("node-%d", n)
		for g := range 8 {
			uuid := fmt.Sprintf("GPU-%d-%d", n, g)
			device := []string{"node", node, "gpu", fmt.Sprint(g), "gpu_uuid", uuid, "instance", node + ":9400"}
			with := func(more ...string) []string { return append(more, device...) }
			who := with("exported_namespace", fmt.Sprintf("team-%d", (n*8+g)%100), "exported_pod", "p-"+uuid, "exported_container", "main", "namespace", "gpuscale-system", "pod", "exporter-"+node)
			add("gpu_info", 1, 0, with("model", "NVIDIA H100 80GB HBM3")...)
			add("gpu_held", 1, 0, who...)
			add("gpu_memory_used_bytes", 4e10, 0, who...)
			add("gpu_healthy", 1, 0, with("reason", "ok")...)
			add("gpu_power_watts", 400, 0, device...)
			for _, reason := range []string{"power_cap", "sw_thermal", "hw_thermal"} {
				add("gpu_throttle_seconds_total", 0, 1, with("reason", reason)...)
			}
		}
	}
	for row := range 2000 {
		for _, place := range []string{"busy", "slack", "idle", "unmeasured"} {
			add("gpuscale_autoscaler_gpu_seconds_total", 0, 10, "pool", fmt.Sprintf("pool-%d", row%20), "model", "H100-80GB",
				"tenant", fmt.Sprintf("tenant-%d", row/20%50), "exported_namespace", fmt.Sprintf("team-%d", row/20), "namespace", "gpuscale-system", "place", place)
		}
	}
	for p := range 20 {
		add("gpuscale_autoscaler_capacity_gpu_seconds_total", 0, 500, "pool", fmt.Sprintf("pool-%d", p), "model", "H100-80GB")
	}
	db := &memstore.DB{}
	for at := now.Add(-10 * time.Minute); !at.After(now); at = at.Add(15 * time.Second) {
		db.Scrape(at, labels.FromStrings("cluster", "east", "job", "gpuscale"), true, page)
		for i := range page {
			page[i].Value += growth[i]
		}
	}
	return db
}

// BenchmarkRules is one evaluation of every rule over 10,000 GPUs (88,000 series),
// as Prometheus makes it each 30 s. The goal is 3 s of one processor, a tenth of
// the interval. Processor time is reported: a busy machine does not lengthen it.
func BenchmarkRules(b *testing.B) {
	db := big()
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	for b.Loop() {
		for _, r := range rules.All() {
			evaluate(b, db, r, now)
		}
	}
	b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
