package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
)

// Dialect is how a Prometheus names labels. With honor_labels, the label of a pod's namespace is "namespace";
// without it, "exported_namespace".
type Dialect struct {
	// These report whose labels were moved to exported_*.
	ExporterMoved, AutoscalerMoved bool
	// Replica is the label that distinguishes replicas of the autoscaler: pod if empty, or instance where a scrape job sets
	// no pod. One label, so that a replica that two jobs scrape counts once.
	Replica string
	// Match is added to every selector: `cluster="a"`.
	Match string
	// Trusted lists the namespaces whose scrape targets are trusted; empty for all. Any scraped pod can expose any
	// series.
	Trusted []string
}

// trust returns how to restrict a series to trusted targets. Usually that is a matcher. If the series'
// namespace label is not the target's, it is a witness instead: a selector of a series that a trusted target
// must expose too. Both are empty if every target is trusted.
func (d Dialect) trust(name string) (matcher, witness string) {
	owner, namespaced, ours := trust.Family(name)
	if !ours || len(d.Trusted) == 0 || slices.Contains(d.Trusted, "*") {
		return "", "" // model servers only report on their own pods
	}
	matcher = Like(metric.LabelNamespace, strings.Join(d.Trusted, "|")) // namespace names contain no special characters
	if moved := owner == metric.Autoscaler && d.AutoscalerMoved || owner != metric.Autoscaler && d.ExporterMoved; moved || !namespaced {
		return matcher, ""
	}
	return "", d.selector(trust.Witness[owner], matcher)
}

// Namespace is the label of the pod's namespace in the exporter's series.
func (d Dialect) Namespace() string { return spell(metric.LabelNamespace, d.ExporterMoved) }

// Pod is the label of the pod in the exporter's series.
func (d Dialect) Pod() string { return spell(metric.LabelPod, d.ExporterMoved) }

// Container is the label of the container in the exporter's series.
func (d Dialect) Container() string { return spell(metric.LabelContainer, d.ExporterMoved) }

// AutoscalerNamespace is the label of the pod's namespace in the autoscaler's series.
func (d Dialect) AutoscalerNamespace() string { return spell(metric.LabelNamespace, d.AutoscalerMoved) }

func spell(label string, moved bool) string {
	if moved {
		return metric.Exported + label
	}
	return label
}

// Equal writes a matcher label="value". It escapes the value.
func Equal(label, value string) string { return label + "=" + strconv.Quote(value) }

// Like writes a matcher with a regular expression. It escapes the string, not the expression.
func Like(label, expression string) string { return label + "=~" + strconv.Quote(expression) }

// Select writes a selector of a trusted series, with the dialect's matchers and the given ones.
func (d Dialect) Select(name string, matchers ...string) string {
	return d.Ranged("%s", "", name, matchers...)
}

// Ranged writes a function of a trusted series over a range: "rate(%s)". Without a window, the function gets
// the current values.
func (d Dialect) Ranged(function, window, name string, matchers ...string) string {
	matcher, witness := d.trust(name)
	if matcher != "" {
		matchers = append([]string{matcher}, matchers...)
	}
	present := "%s"
	if window != "" {
		window, present = "["+window+"]", "present_over_time(%s)"
	}
	series := fmt.Sprintf(function, d.selector(name, matchers...)+window)
	if witness == "" {
		return series
	}
	return "(" + series + " and on (job, instance) " + fmt.Sprintf(present, witness+window) + ")"
}

func (d Dialect) selector(name string, matchers ...string) string {
	if d.Match != "" {
		matchers = append([]string{d.Match}, matchers...)
	}
	if len(matchers) == 0 {
		return name
	}
	return name + "{" + strings.Join(matchers, ",") + "}"
}

// by writes the labels of an aggregation.
func by(labels ...string) string { return "by (" + strings.Join(labels, ", ") + ")" }

// Sampled is the sum of an expression over a window, in hours. Each value stands for the step before it, as
// in the report.
func Sampled(expression string, length, step time.Duration) string {
	return fmt.Sprintf("sum(sum_over_time((%s)[%s:%s])) * %s", expression, seconds(length), seconds(step),
		strconv.FormatFloat(step.Hours(), 'g', -1, 64))
}

// Over writes a subquery of an expression.
func Over(expression string, length, step time.Duration) string {
	return fmt.Sprintf("(%s)[%s:%s]", expression, seconds(length), seconds(step))
}
