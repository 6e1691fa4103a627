package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Of returns a selector of a series in the selected cluster. Matchers are PromQL: `pool=~"$pool"`.
func Of(d metric.Desc, matchers ...string) string { return Named(d.Name, matchers...) }

// Named is Of for another program's series, or for one series of a histogram.
func Named(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{`cluster=~"$cluster"`}, matchers...), ",") + "}"
}

// In returns a matcher: the label has a value that the variable selects.
func In(label, variable string) string { return fmt.Sprintf(`%s=~"$%s"`, label, variable) }

// Is returns a matcher: the label has one of the values.
func Is(label string, values ...string) string {
	if len(values) == 1 {
		return fmt.Sprintf("%s=%q", label, values[0])
	}
	return fmt.Sprintf("%s=~%q", label, strings.Join(values, "|"))
}

// moved lists labels that both our series and scrape targets have. Without honor_labels Prometheus keeps the
// target's label and renames ours to exported_*.
var moved = []string{metric.LabelNamespace, metric.LabelPod, metric.LabelContainer}

// Own is Of for series with a namespace label of their own. It works with honor_labels and without, filters
// by the variable "namespace", and restores the label names.
func Own(d metric.Desc, matchers ...string) string {
	there := append([]string{`exported_namespace=""`, `namespace=~"$namespace"`}, matchers...)
	aside := append([]string{`exported_namespace!=""`, `exported_namespace=~"$namespace"`}, matchers...)
	expr := "(" + Of(d, there...) + " or " + Of(d, aside...) + ")"
	for _, label := range moved {
		if slices.Contains(d.AllLabels(), label) {
			expr = fmt.Sprintf(`label_replace(%s,%q,"$1",%q,"(.+)")`, expr, label, metric.Exported+label)
		}
	}
	return expr
}

// Sum adds up by labels.
func Sum(expr string, by ...string) string { return aggregate("sum", expr, by) }

// Most takes the maximum by labels, which merges duplicates.
func Most(expr string, by ...string) string { return aggregate("max", expr, by) }

// CountOf counts by labels.
func CountOf(expr string, by ...string) string { return aggregate("count", expr, by) }

func aggregate(op, expr string, by []string) string {
	if len(by) == 0 {
		return op + "(" + expr + ")"
	}
	return fmt.Sprintf("%s by (%s) (%s)", op, strings.Join(by, ","), expr)
}

// Rate is a counter's growth per second, over Grafana's interval for the resolution.
func Rate(selector string) string { return "rate(" + selector + "[$__rate_interval])" }

// Happened counts events in a time range. It is for counters whose series begin with the first event, which
// increase misses. A series that ended in the range counts too, for example the errors of a GPU that fell off
// the bus. If a series has no sample at the start of the range, its value of the day before is subtracted: it
// may only be missing because Prometheus was down.
func Happened(selector, in string) string {
	now, before := fmt.Sprintf("last_over_time(%s[%s])", selector, in), fmt.Sprintf("last_over_time(%s%s%s)", selector, Before, in)
	return fmt.Sprintf("((%[1]s - (%[2]s <= %[1]s or %[1]s * 0) unless %[3]s offset %[4]s) or increase(%[3]s[%[4]s]))", now, before, selector, in)
}

// Before begins the range in which Happened looks for the value before its time range.
const Before = "[1d] offset "

// Integral sums a five-minute rate, as rules record it, over the selected time; each five minutes count once.
// It is cheap over a month, where increase would read every value of the counters.
func Integral(selector string) string {
	return "(sum_over_time(" + selector + "[$__range:5m]) * 300)"
}

// Share is part divided by whole. It has no value where whole is 0.
func Share(part, whole string) string { return "(" + part + ") / ((" + whole + ") > 0)" }

// Quantile is a quantile of a histogram over a time range, by labels, for the series that match. It has no
// value where nothing was observed.
func Quantile(q float64, d metric.Desc, matchers []string, in string, by ...string) string {
	buckets := Sum("increase("+Named(d.Name+"_bucket", matchers...)+"["+in+"])", append([]string{"le"}, by...)...)
	return fmt.Sprintf("histogram_quantile(%g, %s) >= 0", q, buckets)
}

// Steady shows the same n series over the whole time range. The function choose (topk, bottomk) selects them
// by their last values in that range. Without Steady, topk selects other series at each moment, and lines
// come and go. expr is built from the selector, and by has its labels.
func Steady(choose string, n int, selector string, expr func(selector string) string, by ...string) string {
	return fmt.Sprintf("%s and on (%s) %s(%d, %s)", expr(selector), strings.Join(by, ","), choose, n, expr("last_over_time("+selector+"[$__range] @ end())"))
}

// Presence is 1 where a series exists and 0 where it does not.
func Presence(selector string) string {
	return "(group(" + selector + ") or absent(" + selector + ") * 0)"
}

// ZeroWhile is expr. Where expr has no series but the witness has, it is 0. It is for events whose series
// begin with the first event.
func ZeroWhile(expr, witness string) string {
	return fmt.Sprintf("%s or 0 * group(%s)", expr, witness)
}
