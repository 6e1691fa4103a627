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

// made is series that a test makes up, by name.
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

func find(t testing.TB, record string) rules.Rule {
	t.Helper()
	all := rules.All()
	i := slices.IndexFunc(all, func(r rules.Rule) bool { return r.Record == record })
	if i < 0 {
		t.Fatalf("there is no rule %s", record)
	}
	return all[i]
}

// Who has held a card idle for more than an hour is counted once a card, however
// many containers hold it and however Prometheus scrapes.
func TestHeldIdle(t *testing.T) {
	for _, honor := range []bool{true, false} {
		m := made{}
		add := func(gpu, namespace, container string, idle float64) {
			ls := labels.FromStrings(labels.MetricName, "gpu_idle_seconds", "node", "n", "gpu", gpu, "gpu_uuid", "GPU-"+gpu, "pod", "p", "container", container, "namespace", namespace)
			if !honor {
				ls = labels.NewBuilder(ls).Set("exported_namespace", namespace).Set("namespace", "system").Labels()
			}
			m.add(ls, now, now, time.Minute, func(int) float64 { return idle })
		}
		add("0", "chat", "a", 3601)
		add("0", "chat", "b", 3601)
		add("1", "chat", "a", 3600)
		add("2", "train", "a", 9000)
		got := fmt.Sprint(evaluate(t, m, find(t, "namespace:gpu_held_idle_1h:count"), now))
		if want := "{namespace=\"chat\"} => 1 @[1767268800000]\n{namespace=\"train\"} => 1 @[1767268800000]"; got != want {
			t.Errorf("honor_labels %v:\n%s\nwant\n%s", honor, got, want)
		}
	}
}

// The first event of a code counts though its series begins with it, and a restart
// of the exporter takes nothing away.
func TestEventsOfAnHour(t *testing.T) {
	for name, c := range map[string]struct {
		from   time.Duration // before now
		values func(i int) float64
		want   float64
	}{
		"the first, 10 minutes ago": {10 * time.Minute, func(int) float64 { return 1 }, 1},
		"none within the hour":      {2 * time.Hour, func(int) float64 { return 4 }, 0},
		"two more":                  {2 * time.Hour, func(i int) float64 { return 4 + 2*float64(min(i/90, 1)) }, 2},
		"a restart, then one": {2 * time.Hour, func(i int) float64 {
			if i < 80 {
				return 4
			}
			return 1
		}, 1},
	} {
		m := made{}
		m.add(labels.FromStrings(labels.MetricName, "gpu_xid_errors_total", "node", "n", "gpu", "0", "gpu_uuid", "GPU-0", "xid", "79"), now.Add(-c.from), now, time.Minute, c.values)
		v := evaluate(t, m, find(t, "node:gpu_xid_errors:increase1h"), now)
		if len(v) != 1 || v[0].F < c.want-0.1 || v[0].F > c.want+0.1 {
			t.Errorf("%s: %v, want %v", name, v, c.want)
		}
	}
}

// big is 1,250 nodes of eight cards as their exporters and the autoscaler show them:
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
			card := []string{"node", node, "gpu", gpu, "gpu_uuid", uuid, "instance", node + ":9400"}
			who := append(slices.Clone(card), "exported_namespace", namespace, "exported_pod", "p-"+uuid, "exported_container", "main", "namespace", "gpuscale-system", "pod", "exporter-"+node)
			with := func(to []string, more ...string) []string { return append(slices.Clone(to), more...) }
			add(one, with(card, labels.MetricName, "gpu_info", "model", "NVIDIA H100 80GB HBM3")...)
			add(one, with(who, labels.MetricName, "gpu_held")...)
			add(func(i int) float64 { return 0.5 }, with(who, labels.MetricName, "gpu_share_ratio")...)
			add(func(i int) float64 { return 4e10 }, with(who, labels.MetricName, "gpu_memory_used_bytes")...)
			add(func(i int) float64 { return 0 }, with(who, labels.MetricName, "gpu_idle_seconds")...)
			add(one, with(card, labels.MetricName, "gpu_healthy", "reason", "ok")...)
			add(func(i int) float64 { return 400 }, with(card, labels.MetricName, "gpu_power_watts")...)
			add(func(i int) float64 { return 1 }, with(card, labels.MetricName, "gpu_sample_age_seconds")...)
			for _, reason := range []string{"power_cap", "sw_thermal", "hw_thermal"} {
				add(func(i int) float64 { return float64(i) }, with(card, labels.MetricName, "gpu_throttle_seconds_total", "reason", reason)...)
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

// spent reports the processor's time, which a busy machine does not lengthen.
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

// BenchmarkRules is one evaluation of every rule over 10,000 cards (118,000 series),
// as Prometheus makes it each 30 s. The goal is that it stays within 3 s of one
// processor, a tenth of the interval.
func BenchmarkRules(b *testing.B) {
	m := big()
	spent(b, func() {
		for _, r := range rules.All() {
			evaluate(b, m, r, now)
		}
	})
}

// panels are what boards ask of the rules: six hours in 360 steps.
var panels = []string{
	`sum by (place) (pool:gpuscale_gpu_seconds:rate5m)`,
	`cluster:gpuscale_gpu_seconds:rate5m`,
	`sum by (namespace) (namespace:gpuscale_gpu_seconds:rate5m{place="busy"})`,
	`topk(10, sum by (tenant) (namespace:gpuscale_gpu_seconds:rate5m{place="idle"}))`,
	`namespace:gpu_share_ratio:sum`,
	`sum(pool:gpuscale_gpu_seconds:rate5m{place="busy"}) / sum(pool:gpuscale_capacity_gpu_seconds:rate5m)`,
	`topk(20, node:gpu_share_ratio:sum)`,
}

// BenchmarkPanel is a panel over six hours of what the rules have recorded of 10,000
// cards. The goal is 200 ms for each.
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
