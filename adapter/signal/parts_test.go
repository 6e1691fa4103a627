package signal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// part of the only pod, whichever it has.
const server = `vllm:num_requests_waiting{namespace="chat",pod="a",model_name="m",engine=`

// A pod's sum without one of its parts is no pod's sum; a part that another scrape
// still reports is not lost.
func TestAPartThatIsSilentMakesThePodStale(t *testing.T) {
	cases := map[string]struct {
		load string
		want float64
	}{
		"gone":           {server + `"1"} 50 50 50 50 50 stale`, -1},
		"stale":          {server + `"1"} 50 50 50 50 50 _ _ _ _ _`, -1},
		"NaN":            {server + `"1"} 50 50 50 50 50 NaN NaN NaN NaN NaN`, -1},
		"another scrape": {server + `"1",job="x"} 50 50 50 50 50 stale` + "\n" + server + `"1",job="y"} 50x9`, 55},
		"there":          {server + `"1"} 50x9`, 55},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			table, now := askedAfter(t, load(t, server+"\"0\"} 5x9\n"+c.load), builtin(t, "queue_depth"), 4, 9)
			a, err := table.Pod(Key{"chat", "a"}, anything, now)
			wants(t, name, c.want, a, err)
		})
	}
}

// A part of a pod is idle by itself: that the one has no requests does not hide the
// other's latency, nor does one that works hide that another is stuck.
func TestPartsAreIdleByThemselves(t *testing.T) {
	engine := func(n int, waiting, running, buckets string) string {
		return strings.ReplaceAll(firstTokenLoad(waiting, running, buckets), `model_name="m"`, fmt.Sprintf(`model_name="m",engine="%d"`, n)) + "\n"
	}
	busy := engine(0, "0x48", "1x48", "0+10x48")
	for name, c := range map[string]struct {
		other string
		want  float64
	}{
		"idle":  {engine(1, "0x48", "0x48", "500x48"), .195},
		"stuck": {engine(1, "1x48", "1x48", "500x48"), -1},
	} {
		table, now := askedAfter(t, load(t, busy+c.other), builtin(t, "ttft_p95"), scraped4m)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		wants(t, name, c.want, a, err)
	}
}

// Without an identity, every label of the series' own distinguishes parts; what
// scraping adds does not.
func TestUndeclaredLabelsAddUp(t *testing.T) {
	m := load(t, `
		requests{namespace="chat",pod="a",method="GET",code="200",job="x"} 3x4
		requests{namespace="chat",pod="a",method="GET",code="200",job="y",instance="10.0.0.1:8"} 3x4
		requests{namespace="chat",pod="a",method="POST",code="200",job="x"} 2x4
		requests{namespace="chat",pod="a",method="GET",code="500",job="x"} 1x4`)
	rule := Rule{Name: "r", Subject: Target, Duplicates: Max, PerPod: Sum, PerWorkload: Sum, Maximum: 100, MaxAge: maxAge, Sources: []Source{{Metric: "requests"}}}
	for want, identity := range map[float64][]string{6: nil, 3: {}, 5: {"method"}} {
		rule.Identity = identity
		table, now := askedAfter(t, m, rule, 4)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		wants(t, fmt.Sprintf("identity %q", identity), want, a, err)
	}
}

// Those who know which pods live count these only, and since when they live.
func TestPodsThatDoNotLive(t *testing.T) {
	table, _, now := ask(t, load(t, `
		vllm:num_requests_waiting{namespace="chat",pod="old"} 30x4
		vllm:num_requests_waiting{namespace="chat",pod="new"} 30x4
		vllm:num_requests_waiting{namespace="chat",pod="again"} 30x2 stale`), NewTable(builtin(t, "queue_depth")), 4*step)
	table = table.Among(func(_, pod string) (time.Time, bool) {
		if pod == "again" { // created within the second of the last sample of the pod before it
			return epoch.Add(2*step + time.Hour).Truncate(time.Second), true
		}
		return time.Time{}, pod != "old"
	})
	if a, err := table.External("chat", anything, now); err != nil || a.Value != 30 || a.Pods != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := table.Pods([]Key{{"chat", "new"}, {"chat", "again"}}, anything, now, "2 pods"); err != nil || a.Value != 30 || a.Pods != 1 {
		t.Errorf("with a pod that was created again: %+v, %v", a, err)
	}
}

// Where the age limit follows scrapes, one that is missed is no fault, and two are.
func TestTheAgeLimitFollowsScrapes(t *testing.T) {
	for _, every := range []time.Duration{15 * time.Second, 30 * time.Second, 60 * time.Second, 120 * time.Second} {
		rule := builtin(t, "queue_depth")
		rule.MaxAge, rule.Follow = 45*time.Second, 16*time.Second
		n := int(every / step)
		sample := "1" + strings.Repeat(" _", n-1) + " "
		text := strings.Repeat(sample, 4) + strings.Repeat("_ ", 600/5) + "1"
		m := load(t, `vllm:num_requests_waiting{namespace="chat",pod="a"} `+text)
		table, now := NewTable(rule), time.Time{}
		last := 3 * every // the last scrape
		for after := time.Duration(0); after <= last+2*every; after += 15 * time.Second {
			table, _, now = ask(t, m, table, after)
			if a, err := table.Pod(Key{"chat", "a"}, anything, now); err != nil {
				t.Errorf("scraped each %s, %s after the last: %+v, %v", every, after-last, a, err)
			}
		}
		if every > time.Minute { // beyond Prometheus' lookback
			continue
		}
		later := now.Add(every + 46*time.Second)
		if a, err := table.Pod(Key{"chat", "a"}, anything, later); err == nil {
			t.Errorf("scraped each %s: %+v after %s without", every, a, later.Sub(a.Time))
		}
	}
}

// Two replicas of Prometheus that answer in turn scrape at different times. That is
// no shorter interval.
func TestTheAgeLimitWithTwoPrometheuses(t *testing.T) {
	rule := builtin(t, "queue_depth")
	rule.MaxAge, rule.Follow = 45*time.Second, 16*time.Second
	table, now := NewTable(rule), time.Unix(1_700_000_000, 0)
	ls := labels.FromStrings("namespace", "chat", "pod", "a")
	for n := range 40 {
		now = now.Add(15 * time.Second)
		scraped := now.Truncate(time.Minute).Add(time.Duration(n%2) * -20 * time.Second)
		table, _ = table.Read([]Sample{{"v0", ls, 1}, {"t0", ls, float64(scraped.Unix())}}, Reading{Evaluated: now, Now: now})
	}
	if limit := rule.limit(table.points[0].every); limit < 76*time.Second {
		t.Errorf("%s for scrapes each minute", limit)
	}
}

// A pod's series are bounded, those that ended a moment ago included: a page whose
// labels change with each scrape has no value, and costs the others nothing.
func TestAPodWithTooManySeries(t *testing.T) {
	table := NewTable(builtin(t, "queue_depth"))
	now := time.Unix(1_700_000_000, 0)
	dropped := map[Reason]int{}
	for scrape := range 20 {
		var samples []Sample
		for n := range 100 {
			pairs := map[string]string{"namespace": "chat", "pod": "churning", "engine": fmt.Sprint(scrape, "/", n)}
			if n == 0 {
				pairs = map[string]string{"namespace": "chat", "pod": "well"}
			}
			ls := labels.FromMap(pairs)
			samples = append(samples, Sample{"v0", ls, 1}, Sample{"t0", ls, float64(now.Unix())})
		}
		table, dropped = table.Read(samples, Reading{Evaluated: now, Now: now})
		if len(table.points) > maxPodPoints+1 {
			t.Fatalf("%d points after %d scrapes", len(table.points), scrape+1)
		}
		now = now.Add(15 * time.Second)
	}
	now = now.Add(-15 * time.Second)
	if dropped[Crowded] == 0 {
		t.Errorf("%v: nothing is counted", dropped)
	}
	if a, err := table.Pod(Key{"chat", "churning"}, anything, now); err == nil || !strings.Contains(err.Error(), "more than 256") {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := table.Pod(Key{"chat", "well"}, anything, now); err != nil || a.Value != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// The queries for some namespaces reach no other, and are short enough.
func TestQueriesReachTheirNamespacesOnly(t *testing.T) {
	var many []string
	for n := range 50 {
		many = append(many, fmt.Sprintf("a-team-with-a-long-name-%03d", n))
	}
	for _, rule := range Builtin(maxAge) {
		rule.Exporters = []string{"gpuscale-system", "gpu-operator"}
		for _, past := range []bool{false, true} {
			for _, names := range [][]string{{"chat"}, {"chat", "search"}, many} {
				for _, q := range rule.Queries(past, names...) {
					if len(q) > 16_384 {
						t.Errorf("%s about %d namespaces: %d bytes", rule.Name, len(names), len(q))
					}
					if _, err := parser.NewParser(parser.Options{}).ParseExpr(q); err != nil {
						t.Errorf("%s: %v", q, err)
					}
				}
			}
		}
	}
	m := load(t, `
		gpu_busy_ratio{namespace="gpuscale-system",pod="exporter-1",gpu_uuid="A",exported_namespace="chat",exported_pod="a"} .5x4
		gpu_busy_ratio{namespace="gpuscale-system",pod="exporter-1",gpu_uuid="B"} .7x4
		gpu_busy_ratio{namespace="chat",pod="b",gpu_uuid="C"} .3x4
		gpu_busy_ratio{namespace="tenant",pod="t",gpu_uuid="D",exported_namespace="chat",exported_pod="a"} .9x4`)
	rule := builtin(t, "gpu_busy")
	rule.Exporters = []string{"gpuscale-system"}
	for _, c := range []struct {
		namespace, pod string
		want           float64
	}{{"chat", "a", .5}, {"chat", "b", .3}, {"gpuscale-system", "exporter-1", -1}, {"tenant", "t", -1}} {
		v, err := m.Query(t.Context(), rule.Query(c.namespace), epoch.Add(4*step))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range v {
			if c.namespace == "chat" && s.Labels.Get("namespace") == "tenant" {
				t.Errorf("a forged series is asked for: %v", s.Labels)
			}
		}
		table, _, now := askFor(t, m, NewTable(rule), rule.Query(c.namespace), 4*step)
		a, err := table.Pod(Key{c.namespace, c.pod}, anything, now)
		wants(t, fmt.Sprint(c), c.want, a, err)
	}
}
