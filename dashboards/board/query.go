package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Of is a selector of a series, in the cluster chosen. Matchers are PromQL's
// own: `pool=~"$pool"`.
func Of(d metric.Desc, matchers ...string) string { return Named(d.Name, matchers...) }

// Named is Of for a series of others, or for a part of a histogram.
func Named(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{`cluster=~"$cluster"`}, matchers...), ",") + "}"
}

// In is a matcher of a label by the variable of a name.
func In(label, variable string) string { return fmt.Sprintf(`%s=~"$%s"`, label, variable) }

// Is is a matcher of a label by some values.
func Is(label string, values ...string) string {
	if len(values) == 1 {
		return fmt.Sprintf("%s=%q", label, values[0])
	}
	return fmt.Sprintf("%s=~%q", label, strings.Join(values, "|"))
}

// moved are labels of our series that a scrape target has as well. Without honor_labels
// Prometheus keeps the target's and moves ours to exported_.
var moved = []string{metric.LabelNamespace, metric.LabelPod, metric.LabelContainer}

// Own is Of for a series with a namespace of its own, with or without honor_labels,
// chosen by the variable "namespace" and with the labels restored to their names.
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

// Sum adds up by some labels.
func Sum(expr string, by ...string) string { return aggregate("sum", expr, by) }

// Most is the largest by some labels: it merges duplicates.
func Most(expr string, by ...string) string { return aggregate("max", expr, by) }

// CountOf counts by some labels.
func CountOf(expr string, by ...string) string { return aggregate("count", expr, by) }

func aggregate(op, expr string, by []string) string {
	if len(by) == 0 {
		return op + "(" + expr + ")"
	}
	return fmt.Sprintf("%s by (%s) (%s)", op, strings.Join(by, ","), expr)
}

// Rate is a counter's growth per second, over Grafana's interval for the resolution.
func Rate(selector string) string { return "rate(" + selector + "[$__rate_interval])" }

// Happened counts events in a time, for a counter whose series begins with its first
// event, which increase alone misses. A series that ended within the time counts too,
// such as the errors of a GPU that fell off the bus. A series without a sample at the
// time's beginning is new only as far as it exceeds its value of the day before:
// Prometheus may have been down.
func Happened(selector, in string) string {
	now, before := fmt.Sprintf("last_over_time(%s[%s])", selector, in), fmt.Sprintf("last_over_time(%s%s%s)", selector, Before, in)
	return fmt.Sprintf("((%[1]s - (%[2]s <= %[1]s or %[1]s * 0) unless %[3]s offset %[4]s) or increase(%[3]s[%[4]s]))", now, before, selector, in)
}

// Before begins the range in which Happened looks for a series' value before a time.
const Before = "[1d] offset "

// Integral is the sum over the selected time of a rate over five minutes, as rules
// record it: each five minutes are counted once. It stays small over a month, where
// increase over the counters themselves reads every one of their values.
func Integral(selector string) string {
	return "(sum_over_time(" + selector + "[$__range:5m]) * 300)"
}

// Share is a part of a whole; absent where the whole is 0.
func Share(part, whole string) string { return "(" + part + ") / ((" + whole + ") > 0)" }

// Quantile of a histogram over a time, by some labels, of the series that match. Absent where nothing
// was observed.
func Quantile(q float64, d metric.Desc, matchers []string, in string, by ...string) string {
	buckets := Sum("increase("+Named(d.Name+"_bucket", matchers...)+"["+in+"])", append([]string{"le"}, by...)...)
	return fmt.Sprintf("histogram_quantile(%g, %s) >= 0", q, buckets)
}

// Steady keeps, at all times, the n series that a function (topk, bottomk) chooses by their
// last values in the selected time: alone it chooses others at each moment, and lines come
// and go. expr is made of the selector, and by are its labels.
func Steady(choose string, n int, selector string, expr func(selector string) string, by ...string) string {
	return fmt.Sprintf("%s and on (%s) %s(%d, %s)", expr(selector), strings.Join(by, ","), choose, n, expr("last_over_time("+selector+"[$__range] @ end())"))
}

// Presence is 1 where a series exists and 0 where it does not.
func Presence(selector string) string {
	return "(group(" + selector + ") or absent(" + selector + ") * 0)"
}

// ZeroWhile is expr, and 0 where that is absent while a witness has series: for events
// whose series begin with the first event.
func ZeroWhile(expr, witness string) string {
	return fmt.Sprintf("%s or 0 * group(%s)", expr, witness)
}
