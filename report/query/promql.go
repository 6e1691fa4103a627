package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Dialect is how a Prometheus spells labels: with honor_labels the pod's namespace is
// "namespace", without it "exported_namespace".
type Dialect struct {
	// ExporterMoved and AutoscalerMoved report whose labels were moved to exported_*.
	ExporterMoved, AutoscalerMoved bool
	// Match is put into every selector: `cluster="a"`.
	Match string
}

// Namespace is the label of the pod's namespace in the exporter's series.
func (d Dialect) Namespace() string { return spell(metric.LabelNamespace, d.ExporterMoved) }

// Pod is the label of the pod in the exporter's series.
func (d Dialect) Pod() string { return spell(metric.LabelPod, d.ExporterMoved) }

// Container is the label of the container in the exporter's series.
func (d Dialect) Container() string { return spell(metric.LabelContainer, d.ExporterMoved) }

// AllocatedTo is the label of the pod's namespace in the autoscaler's series.
func (d Dialect) AllocatedTo() string { return spell(metric.LabelNamespace, d.AutoscalerMoved) }

func spell(label string, moved bool) string {
	if moved {
		return metric.Exported + label
	}
	return label
}

// Equal is a matcher. It escapes the value.
func Equal(label, value string) string { return label + "=" + strconv.Quote(value) }

// Like is a matcher by regular expression. It escapes the string, not the expression.
func Like(label, expression string) string { return label + "=~" + strconv.Quote(expression) }

// Select writes a selector of a series with the dialect's matchers and others.
func (d Dialect) Select(name string, matchers ...string) string {
	if d.Match != "" {
		matchers = append([]string{d.Match}, matchers...)
	}
	if len(matchers) == 0 {
		return name
	}
	return name + "{" + strings.Join(matchers, ",") + "}"
}

// by writes the labels of an aggregation; the same label is named once.
func by(labels ...string) string {
	var once []string
	seen := map[string]bool{}
	for _, l := range labels {
		if !seen[l] {
			once = append(once, l)
		}
		seen[l] = true
	}
	return "by (" + strings.Join(once, ", ") + ")"
}

// Sampled is the sum of an expression over a window in hours, each value standing for
// the step before it, as the report computes it.
func Sampled(expression string, length, step time.Duration) string {
	return fmt.Sprintf("sum(sum_over_time((%s)[%s:%s])) * %s", expression, seconds(length), seconds(step),
		strconv.FormatFloat(step.Hours(), 'g', -1, 64))
}

// Over writes a subquery of an expression.
func Over(expression string, length, step time.Duration) string {
	return fmt.Sprintf("(%s)[%s:%s]", expression, seconds(length), seconds(step))
}
