package rules

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Rule is a recording rule.
type Rule struct {
	Record string
	Expr   string
	Help   string   // a sentence: what it is, in which unit
	Labels []string // that its series may have beside cluster
}

// Group is rules that are evaluated together.
type Group struct {
	Name     string
	Interval string // between two evaluations
	Rules    []Rule
}

// All returns every rule, in the file's order.
func All() []Rule {
	var all []Rule
	for _, g := range Groups() {
		all = append(all, g.Rules...)
	}
	return all
}

// Groups returns the groups in the order of the file. They are computed once, since the rule about slices
// reads every product's table.
var Groups = sync.OnceValue(func() []Group {
	all := []Group{
		{"gpuscale.fleet", Interval, fleet()},
		{"gpuscale.tenants", Interval, tenants()},
		{"gpuscale.gpus", Interval, gpus()},
		{"gpuscale.pods", Interval, pods()},
		{"gpuscale.mig", SlowInterval, layouts()},
	}
	for _, g := range all {
		for i := range g.Rules {
			expr, err := sources.Trusted(g.Rules[i].Expr, sources.Matcher)
			if err != nil {
				panic(fmt.Sprintf("rule %s: %v", g.Rules[i].Record, err)) // a test finds it
			}
			g.Rules[i].Expr = expr
		}
	}
	return all
})

// Find returns the rule that records a name.
func Find(record string) (Rule, bool) {
	for _, r := range All() {
		if r.Record == record {
			return r, true
		}
	}
	return Rule{}, false
}

// window is the range of rates. It covers ten scrapes at an interval of half a minute, as in Prometheus' own
// examples.
const window = "5m"

// sum adds up by cluster and labels.
func sum(expr string, by ...string) string { return sources.By("sum", expr, by...) }

// count counts by cluster and labels.
func count(expr string, by ...string) string { return sources.By("count", expr, by...) }

// largest merges duplicate series, for example from two scrapes of one exporter.
func largest(expr string, by ...string) string { return sources.By("max", expr, by...) }

func rate(d metric.Desc) string { return fmt.Sprintf("rate(%s[%s])", d.Name, window) }

// podLabels are labels that both a GPU's pod and a scrape target have.
var podLabels = []string{metric.LabelNamespace, metric.LabelPod}

// entity lists the labels of a GPU or instance.
var entity = []string{metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelGPUInstanceID}

// Interval is the time between two evaluations. It is longer than the scrape interval, since boards show
// minutes.
const Interval = "30s"

// SlowInterval is for expensive rules whose values rarely change: MIG layouts.
const SlowInterval = "1m"

// YAML returns the rules as Prometheus reads them.
func YAML() []byte {
	var b strings.Builder
	b.WriteString("# Written from dashboards/rules; make generate writes it again.\ngroups:\n")
	for _, g := range Groups() {
		fmt.Fprintf(&b, "- name: %s\n  interval: %s\n  rules:\n", g.Name, g.Interval)
		for _, r := range g.Rules {
			fmt.Fprintf(&b, "  # %s\n  - record: %s\n    expr: |-\n      %s\n", r.Help, r.Record, r.Expr)
		}
	}
	return []byte(b.String())
}
