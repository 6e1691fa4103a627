package rules

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Rule is one recording rule.
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

// Groups returns the rules as the file has them.
func Groups() []Group { return slices.Clone(groups()) }

// groups are made once: the rule about slices goes through every product's table.
var groups = sync.OnceValue(func() []Group {
	return []Group{
		{"gpuscale.fleet", Interval, fleet()},
		{"gpuscale.tenants", Interval, tenants()},
		{"gpuscale.cards", Interval, cards()},
		{"gpuscale.pods", Interval, pods()},
		{"gpuscale.mig", SlowInterval, layouts()},
		{"gpuscale.waits", Interval, waits()},
	}
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

// window of rates: four scrapes at half a minute, and what Prometheus' own examples
// have.
const window = "5m"

// sum adds up by cluster and some labels.
func sum(expr string, by ...string) string { return aggregate("sum", expr, by) }

// count counts by cluster and some labels.
func count(expr string, by ...string) string { return aggregate("count", expr, by) }

// largest is of a thing that several say the same of: two scrapes of one exporter.
func largest(expr string, by ...string) string { return aggregate("max", expr, by) }

func aggregate(op, expr string, by []string) string {
	return fmt.Sprintf("%s by (%s) (%s)", op, strings.Join(append([]string{labelCluster}, by...), ", "), expr)
}

// labelCluster is what people add where the series of several clusters meet.
const labelCluster = "cluster"

func rate(d metric.Desc) string { return fmt.Sprintf("rate(%s[%s])", d.Name, window) }

// own brings the labels back that Prometheus moved out of the target's way, where it
// scrapes without honor_labels.
func own(expr string, labels ...string) string {
	for _, l := range labels {
		expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", expr, l, metric.Exported+l)
	}
	return expr
}

// holder are the labels that a card's holder and a scrape target both have.
var holder = []string{metric.LabelNamespace, metric.LabelPod}

// entity are the labels of a card or instance.
var entity = []string{metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelGPUInstanceID}

// held keeps those of a card's or instance's series that have a holder. With
// honor_labels one without has the namespace and pod of the exporter instead, which
// holds nothing: only gpu_held tells.
func held(expr string) string {
	by := append(append([]string{}, entity...), holder...)
	return fmt.Sprintf("%s and on (%s) %s", largest(own(expr, holder...), by...),
		strings.Join(append([]string{labelCluster}, by...), ", "), largest(own(metric.GPUHeld.Name, holder...), by...))
}

// quantile of a histogram over a time; absent where nothing was observed.
func quantile(q float64, d metric.Desc, in string, by ...string) string {
	return fmt.Sprintf("histogram_quantile(%g, %s) >= 0", q, sum(fmt.Sprintf("rate(%s_bucket[%s])", d.Name, in), append(by, "le")...))
}
