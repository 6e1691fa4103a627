package signal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func queryRule(text string) Rule {
	r := Rule{
		Name: "own", Subject: Namespace, Sources: []Source{{Metric: FirstMetric(text), Form: PromQL, Query: text}},
		Duplicates: Max, PerPod: Sum, PerWorkload: Sum, Maximum: 1e9, MaxAge: 45 * time.Second,
	}
	if GroupsBy(text, "pod") {
		r.Subject = Target
	}
	return r
}

const jobs = `
jobs_done_total{namespace="shop",pod="a",queue="x"} 0+10x60
jobs_done_total{namespace="shop",pod="a",queue="y"} 0+5x60
jobs_done_total{namespace="shop",pod="b",queue="x"} 0+10x60
jobs_done_total{namespace="bank",pod="a",queue="x"} 0+100x60
workers{namespace="shop",pod="a"} 3x60
`

// A query is sent about the namespaces that its variable stands for. It gives one number for each pod that it groups
// by, or for each namespace.
func TestAQueryInPromQL(t *testing.T) {
	m := load(t, jobs)
	for text, want := range map[string]struct {
		pod, external float64 // negative: no answer
	}{
		`sum by (namespace, pod) (rate(jobs_done_total{namespace=~"$namespaces"}[1m]))`:                                            {3, 5},
		`sum by (namespace) (rate(jobs_done_total{namespace=~"$namespaces"}[1m]))`:                                                 {-1, 5},
		`rate(jobs_done_total{namespace=~"$namespaces"}[1m])`:                                                                      {-1, 5},
		`sum by (namespace, pod) (rate(jobs_done_total{namespace="$namespaces"}[1m])) / on (namespace, pod) group_left () workers`: {1, 1},
		`sum(rate(jobs_done_total{namespace=~"$namespaces"}[1m]))`:                                                                 {-1, -1}, // of no namespace
		`sum by (pod) (rate(jobs_done_total{namespace=~"$namespaces"}[1m]))`:                                                       {-1, -1},
		// What is computed from numbers for each pod is a number for each pod.
		`ceil(sum by (namespace, pod) (rate(jobs_done_total{namespace=~"$namespaces"}[1m])) / 2)`:                                                                           {2, 3},
		`sum by (namespace, pod) (2 * rate(jobs_done_total{namespace=~"$namespaces"}[1m])) / sum by (namespace, pod) (rate(jobs_done_total{namespace=~"$namespaces"}[1m]))`: {2, 4},
		`max_over_time(sum without (queue) (sum by (namespace, pod, queue) (rate(jobs_done_total{namespace=~"$namespaces"}[1m])))[30s:5s])`:                                 {3, 5},
		`sum by (namespace, pod) (workers{namespace=~"$namespaces"}) / on (namespace) sum by (namespace) (workers{namespace=~"$namespaces"})`:                               {-1, 1},
		`sum by (namespace) (workers{namespace=~"$namespaces"}) / scalar(sum by (pod) (workers{namespace="shop"}))`:                                                         {-1, 1},
		// Selectors of the past (offset, @) do not make a number old; a number without any sample is no answer.
		`sum by (namespace, pod) (jobs_done_total{namespace=~"$namespaces"} - jobs_done_total{namespace=~"$namespaces"} offset 2m)`: {360, 600},
		`sum by (namespace) (none{namespace=~"$namespaces"}) or label_replace(vector(0), "namespace", "shop", "", "")`:              {-1, -1},
		`sum by (namespace) ({__name__=~"jobs_.*",namespace=~"$namespaces"} * 0 + 7)`:                                               {-1, 21},
	} {
		r := queryRule(text)
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		table, _, now := askFor(t, m, NewTable(r), r.Query("shop", "void"), 60*step)
		a, err := table.Pod(Key{"shop", "a"}, anything, now)
		wants(t, text+": the pod", want.pod, a, err)
		a, err = table.External("shop", anything, now)
		wants(t, text+": the namespace", want.external, a, err)
		a, err = table.External("bank", anything, now)
		wants(t, text+": another namespace", none, a, err)
	}
}

// A query without the variable gives its number to the namespaces that the rule names, however many ask at once, and to
// no other.
func TestNumberOfAnotherNamespace(t *testing.T) {
	m := load(t, `
rabbitmq_queue_messages_ready{namespace="rabbitmq",pod="mq-0",queue="orders"} 30x20
rabbitmq_queue_messages_ready{namespace="rabbitmq",pod="mq-1",queue="orders"} 12x20
rabbitmq_queue_messages_ready{namespace="rabbitmq",pod="mq-0",queue="mails"} 500x20
workers{namespace="shop"} 7 7 _x18
`)
	for _, c := range []struct {
		query      string
		asked      []string
		shop, bank float64 // negative: no answer
	}{
		{`rabbitmq_queue_messages_ready{namespace="rabbitmq",queue="orders"}`, []string{"shop", "void"}, 42, -1},
		{`sum(rabbitmq_queue_messages_ready{namespace="rabbitmq",queue="orders"})`, []string{"shop", "bank"}, 42, 42},
		{`sum(rabbitmq_queue_messages_ready{queue="orders"})`, []string{"void"}, -1, -1},
		{`sum(rabbitmq_queue_messages_ready{queue="orders"})`, nil, 42, 42},
		{`sum(rabbitmq_queue_messages_ready) / scalar(workers)`, []string{"shop"}, -1, -1}, // which is too old
		{`sum(none)`, []string{"shop"}, -1, -1},
		{`sum(none) or vector(0)`, []string{"shop"}, -1, -1},
		{`scalar(sum({"rabbitmq_queue_messages_ready",queue="orders"}))`, []string{"shop"}, 42, -1},
		{`sum(rabbitmq_queue_messages_ready{queue="orders"} offset 1m)  + 0 * sum(rabbitmq_queue_messages_ready)`, []string{"shop"}, 42, -1},
	} {
		r := queryRule(c.query)
		r.Subject, r.Namespaces = Namespace, []string{"shop", "bank"}
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		table, _, now := askFor(t, m, NewTable(r), r.Query(c.asked...), 20*step)
		for namespace, want := range map[string]float64{"shop": c.shop, "bank": c.bank, "rabbitmq": -1, "void": -1} {
			a, err := table.External(namespace, anything, now)
			wants(t, fmt.Sprintf("%s, asked for %q: %s", c.query, c.asked, namespace), want, a, err)
		}
	}
}

func TestMistakesInAQuery(t *testing.T) {
	for _, c := range []struct{ query, namespace, want string }{
		{`sum(rate(x[5m])) by`, "", "parse error"},
		{`my.queue{namespace=~"$namespaces"}`, "", `is written {"a.b", label="x"}`},
		{`sum(x)`, "", `no selector has namespace=~"$namespaces"`},
		{`x{namespace!="$namespaces"}`, "", `write namespace=~"$namespaces"`},
		{`x{namespace=~"$namespaces"}[5m]`, "", "gives a range vector"},
		{`scalar(x{namespace=~"$namespaces"})`, "", "gives a scalar"},
		{`x{namespace=~"a|$namespaces"}`, "", "no selector has"},
		{`x{namespace=~"$namespaces"} offset 5m`, "", "reads the past only"},
		{`x{namespace=~"$namespaces"} @ end()`, "", "reads the past only"},
		{`x{namespace=~"$namespaces"} or vector(`, "", "parse error"},
		{`sum(x{namespace=~"$namespaces"})`, "shop", "leave $namespaces out"},
		{`vector(1)`, "shop", "reads no series"},
		{`sum(x)`, `a"}`, "namespaces[0]: "},
	} {
		r := queryRule(c.query)
		if c.namespace != "" {
			r.Namespaces = []string{c.namespace}
		}
		if err := r.Validate(); err == nil || c.namespace == "" && !strings.Contains(err.Error(), "query: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %q: %v, want %q", c.query, c.namespace, err, c.want)
		}
	}
	r := Builtin(45 * time.Second)[0]
	r.Namespaces = []string{"shop"}
	if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "namespaces: are for a query") {
		t.Errorf("a rule of sources: %v", err)
	}
}

// A namespace's name cannot leave its place in a query.
func TestANamespaceIsNoPromQL(t *testing.T) {
	r := queryRule(`sum by (namespace) (x{namespace=~"$namespaces"})`)
	const hostile = `a"} or y{namespace="b`
	for _, text := range []string{r.Query(hostile), r.Query(hostile, ".*"), strings.Join(r.Queries(true, hostile, ".*"), " or ")} {
		w, err := readPromQL(text, nil)
		if err != nil || w.variable || strings.Contains(text, " or y{") && !strings.Contains(text, `\" or y{`) && !strings.Contains(text, `\"} or y{`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
