package rules_test

import (
	"fmt"
	"log/slog"
	"math"
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

var recorded = regexp.MustCompile(`^(cluster|pool|node|gpu|slice|namespace|pod):[a-z][a-z0-9_]*:(sum|count|max|avg|ratio|standing|rate5m|p95_(5m|30m))$`)

// Prometheus accepts the file. A rule's name has its level, and the rule has that level's labels. Package lint checks
// what the rules read.
func TestRules(t *testing.T) {
	groups, errs := rulefmt.Parse(rules.YAML(), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 || len(groups.Groups) != len(rules.Groups()) {
		t.Fatal(groups, errs)
	}
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

// TestAMissedScrape: rates continue over a failed scrape of the autoscaler, which ends its series.
func TestAMissedScrape(t *testing.T) {
	const target = `job="a",instance="i",namespace="gpuscale-system"`
	src, err := memstore.Read("gpuscale_autoscaler_leader{"+target+"} 1x9 stale\n"+
		"gpuscale_autoscaler_gpu_seconds_total{"+target+`,pool="p",place="free"} 0+30x9 stale`+"\n"+
		"gpuscale_autoscaler_capacity_gpu_seconds_total{"+target+`,pool="p"} 0+30x9 stale`, memstore.Until(now, 30*time.Second))
	require.NoError(t, err)
	for _, record := range []string{"pool:gpuscale_gpu_seconds:rate5m", "namespace:gpuscale_gpu_seconds:rate5m", "pool:gpuscale_capacity_gpu_seconds:rate5m"} {
		r, _ := rules.Find(record)
		if v := evaluate(t, src, r, now); len(v) != 1 || math.Abs(v[0].F-1) > 0.01 {
			t.Errorf("%s: %v, want 1", record, v)
		}
	}
}

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// big is 1,250 nodes of eight GPUs, as their exporters and the autoscaler report them: ten minutes of what the rules
// read, in 100 namespaces and 20 pools.
func big(b *testing.B) *memstore.DB {
	var page []memstore.Exposed
	var growth []float64 // of each series, each 15 s
	add := func(value, grows float64, format string, args ...any) {
		ls, err := parser.NewParser(parser.Options{}).ParseMetric(fmt.Sprintf(format, args...))
		require.NoError(b, err)
		page, growth = append(page, memstore.Exposed{Labels: ls, Value: value}), append(growth, grows)
	}
	for n := range 10_000 {
		device := fmt.Sprintf(`node="node-%d",gpu="%d",gpu_uuid="GPU-%d",instance="node-%d:9400",namespace="gpuscale-system",pod="exporter-%d"`, n/8, n%8, n, n/8, n/8)
		who := fmt.Sprintf(`%s,exported_namespace="team-%d",exported_pod="p-%d",exported_container="main"`, device, n%100, n)
		add(1, 0, `gpu_info{%s,model="NVIDIA H100 80GB HBM3"}`, device)
		add(1, 0, "gpu_held{%s}", who)
		add(4e10, 0, "gpu_memory_used_bytes{%s}", who)
		add(1, 0, `gpu_healthy{%s,reason="ok"}`, device)
		add(400, 0, "gpu_power_watts{%s}", device)
		for _, reason := range []string{"power_cap", "sw_thermal", "hw_thermal"} {
			add(0, 1, `gpu_throttle_seconds_total{%s,reason="%s"}`, device, reason)
		}
	}
	for row := range 2000 {
		for _, place := range []string{"busy", "slack", "idle", "unmeasured"} {
			add(0, 10, `gpuscale_autoscaler_gpu_seconds_total{pool="pool-%d",model="H100-80GB",tenant="tenant-%d",exported_namespace="team-%d",namespace="gpuscale-system",place="%s"}`, row%20, row/20%50, row/20, place)
		}
	}
	for p := range 20 {
		add(0, 500, `gpuscale_autoscaler_capacity_gpu_seconds_total{pool="pool-%d",model="H100-80GB"}`, p)
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
	db := big(b)
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
