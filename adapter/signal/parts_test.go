package signal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Where the age limit follows the scrape interval, one missed scrape makes no value missing, and two do.
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
		if every > time.Minute { // longer than Prometheus' lookback
			continue
		}
		later := now.Add(every + 46*time.Second)
		if a, err := table.Pod(Key{"chat", "a"}, anything, later); err == nil {
			t.Errorf("scraped each %s: %+v after %s without", every, a, later.Sub(a.Time))
		}
	}
}

// Two replicas of Prometheus that answer in turn scrape at different times, and a busy one evaluates some queries late.
// Neither shortens the scrape interval.
func TestTheAgeLimitFollowsScrapesOnly(t *testing.T) {
	for every, odd := range map[time.Duration]struct{ earlier, late time.Duration }{time.Minute: {earlier: 20 * time.Second}, 2 * time.Minute: {late: 1500 * time.Millisecond}} {
		rule := builtin(t, "queue_depth")
		rule.MaxAge, rule.Follow = 45*time.Second, 16*time.Second
		table, now := NewTable(rule), time.Unix(1_700_000_000, 0)
		ls := labels.FromStrings("namespace", "chat", "pod", "a")
		for n := range 40 {
			now = now.Add(15 * time.Second)
			scraped, evaluated := now.Truncate(every).Add(time.Duration(n%2)*-odd.earlier), now.Add(time.Duration(n%2)*odd.late)
			table, _ = table.Read([]Sample{{"v0", ls, 1}, {"t0", ls, float64(scraped.Unix())}}, Reading{Evaluated: evaluated, Now: now})
		}
		if limit := rule.limit(table.pods[Key{"chat", "a"}][0].every); limit < every+16*time.Second {
			t.Errorf("%s for scrapes each %s", limit, every)
		}
	}
}

// A pod's series are bounded, those that have just ended included. A page whose labels change with each scrape, or with
// long labels, has no value and costs other pods nothing. A picker's page with a thousand models, under its two names,
// is within the bound.
func TestAPodWithTooManySeries(t *testing.T) {
	table := NewTable(builtin(t, "queue_depth"))
	now := time.Unix(1_700_000_000, 0)
	dropped := map[Reason]int{}
	for scrape := range 20 {
		var samples []Sample
		for n := range 2_500 {
			pairs := map[string]string{"namespace": "chat", "pod": "churning", "engine": fmt.Sprint(scrape, "/", n)}
			if n < 2_000 {
				pairs = map[string]string{"namespace": "chat", "pod": "well", "engine": fmt.Sprint(n)}
			}
			if n == 2_499 {
				for i := range 40 {
					ls := labels.FromStrings("namespace", "chat", "pod", "long", "engine", strings.Repeat("x", 64<<10)+fmt.Sprint(i, scrape))
					samples = append(samples, Sample{"v0", ls, 1}, Sample{"t0", ls, float64(now.Unix())})
				}
			}
			ls := labels.FromMap(pairs)
			samples = append(samples, Sample{"v0", ls, 1}, Sample{"t0", ls, float64(now.Unix())})
		}
		table, dropped = table.Read(samples, Reading{Evaluated: now, Now: now})
		for k, points := range table.pods {
			if most := map[string]int{"churning": maxPodPoints, "well": 2_000, "long": 33}[k.Pod]; len(points) > most {
				t.Fatalf("%d points of %s after %d scrapes", len(points), k.Pod, scrape+1)
			}
		}
		now = now.Add(15 * time.Second)
	}
	now = now.Add(-15 * time.Second)
	if dropped[Crowded] == 0 {
		t.Errorf("%v: nothing is counted", dropped)
	}
	for _, pod := range []string{"churning", "long"} {
		if a, err := table.Pod(Key{"chat", pod}, anything, now); err == nil || !strings.Contains(err.Error(), "more than 2048") {
			t.Errorf("%s: %+v, %v", pod, a, err)
		}
	}
	if a, err := table.Pod(Key{"chat", "well"}, anything, now); err != nil || a.Value != 2_000 {
		t.Errorf("%+v, %v", a, err)
	}
}

// The built-in rules are valid, and their queries about some namespaces are short enough for every server.
func TestBuiltinRulesAreValidAndShort(t *testing.T) {
	var many []string
	for n := range 50 {
		many = append(many, fmt.Sprintf("a-team-with-a-long-name-%03d", n))
	}
	for _, rule := range Builtin(maxAge) {
		if err := rule.Validate(); err != nil {
			t.Errorf("%s: %v", rule.Name, err)
		}
		rule.Exporters = []string{"gpuscale-system", "gpu-operator"}
		for _, past := range []bool{false, true} {
			for _, names := range [][]string{nil, {"chat"}, {"chat", "search"}, many} {
				for _, q := range rule.Queries(past, names...) {
					if len(q) > 16_384 && names != nil {
						t.Errorf("%s about %d namespaces: %d bytes", rule.Name, len(names), len(q))
					}
					e, err := parser.NewParser(parser.Options{}).ParseExpr(q)
					if err != nil {
						t.Errorf("%s: %v", q, err)
					}
					// Google's managed Prometheus selects by exact names only.
					for _, selector := range parser.ExtractSelectors(e) {
						if !slices.ContainsFunc(selector, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && m.Type == labels.MatchEqual }) {
							t.Errorf("%s: %v has no name", rule.Name, selector)
						}
					}
				}
			}
		}
	}
}
