package rules_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// made is synthetic series, by name.
type made map[string][]storage.Series

// add adds a series of which value gives the number of each step.
func (m made) add(ls labels.Labels, from, to time.Time, step time.Duration, value func(i int) float64) {
	var points []chunks.Sample
	for i := 0; !from.After(to); i++ {
		points = append(points, memstore.At(from, value(i)))
		from = from.Add(step)
	}
	name := ls.Get(labels.MetricName)
	m[name] = append(m[name], storage.NewListSeries(ls, points))
}

func (m made) Querier(from, to int64) (storage.Querier, error) {
	return memstore.Querier(from, to, func(_, _ int64, matchers []*labels.Matcher) []storage.Series {
		var found []storage.Series
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !memstore.MatchesName(name, matchers) {
				continue
			}
			for _, s := range m[name] {
				if memstore.Matches(s.Labels(), matchers) {
					found = append(found, s)
				}
			}
		}
		return found
	}), nil
}

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// big is 1,250 nodes of eight GPUs as their exporters and the autoscaler show them:
// ten minutes of what the rules read, in 100 namespaces and 20 pools.
func big() made {
	m, from := made{}, now.Add(-10*time.Minute)
	add := func(value func(int) float64, pairs ...string) {
		m.add(labels.FromStrings(append([]string{"cluster", "east", "job", "gpuscale"}, pairs...)...), from, now, 15*time.Second, value)
	}
	one := func(int) float64 { return 1 }
	for n := range 1250 {
		node := fmt.Sprintf("node-%d", n)
		for g := range 8 {
			uuid, gpu, namespace := fmt.Sprintf("GPU-%d-%d", n, g), fmt.Sprint(g), fmt.Sprintf("team-%d", (n*8+g)%100)
			device := []string{"node", node, "gpu", gpu, "gpu_uuid", uuid, "instance", node + ":9400"}
			who := append(slices.Clone(device), "exported_namespace", namespace, "exported_pod", "p-"+uuid, "exported_container", "main", "namespace", "gpuscale-system", "pod", "exporter-"+node)
			with := func(to []string, more ...string) []string { return append(slices.Clone(to), more...) }
			add(one, with(device, labels.MetricName, "gpu_info", "model", "NVIDIA H100 80GB HBM3")...)
			add(one, with(who, labels.MetricName, "gpu_held")...)
			add(func(i int) float64 { return 4e10 }, with(who, labels.MetricName, "gpu_memory_used_bytes")...)
			add(one, with(device, labels.MetricName, "gpu_healthy", "reason", "ok")...)
			add(func(i int) float64 { return 400 }, with(device, labels.MetricName, "gpu_power_watts")...)
			for _, reason := range []string{"power_cap", "sw_thermal", "hw_thermal"} {
				add(func(i int) float64 { return float64(i) }, with(device, labels.MetricName, "gpu_throttle_seconds_total", "reason", reason)...)
			}
		}
	}
	for row := range 2000 {
		for _, place := range []string{"busy", "slack", "idle", "unmeasured"} {
			add(func(i int) float64 { return float64(i) * 10 }, labels.MetricName, "gpuscale_autoscaler_gpu_seconds_total", "pool", fmt.Sprintf("pool-%d", row%20), "model", "H100-80GB",
				"tenant", fmt.Sprintf("tenant-%d", row/20%50), "exported_namespace", fmt.Sprintf("team-%d", row/20), "namespace", "gpuscale-system", "place", place)
		}
	}
	for p := range 20 {
		add(func(i int) float64 { return float64(i) * 500 }, labels.MetricName, "gpuscale_autoscaler_capacity_gpu_seconds_total", "pool", fmt.Sprintf("pool-%d", p), "model", "H100-80GB")
	}
	return m
}

// spent returns CPU time, which a busy machine does not lengthen.
func spent(b *testing.B, work func()) {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	for b.Loop() {
		work()
	}
	b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkRules is one evaluation of every rule over 10,000 GPUs (88,000 series),
// as Prometheus makes it each 30 s. The goal is 3 s of one processor, a tenth of
// the interval.
func BenchmarkRules(b *testing.B) {
	m := big()
	spent(b, func() {
		for _, r := range rules.All() {
			evaluate(b, m, r, now)
		}
	})
}

// panels are boards' queries of the rules: six hours in 360 steps.
var panels = []string{
	`sum by (place) (pool:gpuscale_gpu_seconds:rate5m)`,
	`sum by (namespace) (namespace:gpuscale_gpu_seconds:rate5m{place="busy"})`,
	`topk(10, sum by (tenant) (namespace:gpuscale_gpu_seconds:rate5m{place="idle"}))`,
	`sum(pool:gpuscale_gpu_seconds:rate5m{place="busy"}) / sum(pool:gpuscale_capacity_gpu_seconds:rate5m)`,
}

// BenchmarkPanel is a panel over six hours of what the rules have recorded of 10,000
// GPUs. The goal is 200 ms for each.
func BenchmarkPanel(b *testing.B) {
	raw, recorded := big(), made{}
	for _, r := range rules.All() {
		if !slices.ContainsFunc(panels, func(p string) bool { return strings.Contains(p, r.Record) }) {
			continue
		}
		for _, one := range evaluate(b, raw, r, now) {
			ls := labels.NewBuilder(one.Metric).Set(labels.MetricName, r.Record).Labels()
			recorded.add(ls, now.Add(-6*time.Hour), now, 30*time.Second, func(i int) float64 { return one.F + float64(i%7) })
		}
	}
	for _, query := range panels {
		b.Run(query, func(b *testing.B) {
			spent(b, func() {
				if err := run(recorded, query); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func run(src storage.Queryable, query string) error {
	q, err := engine.NewRangeQuery(context.Background(), src, nil, query, now.Add(-6*time.Hour), now, time.Minute)
	if err != nil {
		return err
	}
	defer q.Close()
	m, err := q.Exec(context.Background()).Matrix()
	if err == nil && len(m) == 0 {
		err = fmt.Errorf("%s: nothing", query)
	}
	return err
}
