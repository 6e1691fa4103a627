package query

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Dialect is how a Prometheus spells labels: with honor_labels the pod's namespace is
// "namespace", without it "exported_namespace".
type Dialect struct {
	// ExporterMoved and AutoscalerMoved report whose labels were moved to exported_*.
	ExporterMoved, AutoscalerMoved bool
	// Match is put into every selector: `cluster="a"`.
	Match string
	// Trusted are the namespaces whose scrape targets are believed; empty for all. Any scraped pod can
	// expose any series.
	Trusted []string
	// Jobs are the scrape jobs of the exporters and autoscalers in Trusted.
	Jobs []string
}

// trust is the matcher of trusted targets for a series, "" where every target is believed. With
// honor_labels the namespace of many series is a pod's, and the target is known by its job, which a
// target without honor_labels cannot set.
func (d Dialect) trust(name string) string {
	if len(d.Trusted) == 0 || slices.Contains(d.Trusted, "*") {
		return ""
	}
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		desc, ours := metric.Find(strings.TrimSuffix(name, suffix))
		if !ours {
			continue
		}
		moved := d.ExporterMoved
		if desc.Owner == metric.Autoscaler {
			moved = d.AutoscalerMoved
		}
		if moved || !slices.Contains(desc.AllLabels(), metric.LabelNamespace) {
			return oneOf(metric.LabelNamespace, d.Trusted)
		}
		return oneOf("job", d.Jobs)
	}
	return "" // a model server's: it reports on its own pod
}

// JobsQuery asks for the jobs of the programs in Trusted; of turns a selector into an expression.
func (d Dialect) JobsQuery(of func(selector string) string) string {
	return "group by (job) (" + of(d.Select(metric.GPUInfo.Name)) + " or " + of(d.Select(metric.AutoscalerLeader.Name)) + ")"
}

// WithJobs returns the dialect with the jobs of JobsQuery's answer.
func (d Dialect) WithJobs(v prom.Vector) Dialect {
	d.Jobs = nil
	for _, s := range v {
		d.Jobs = append(d.Jobs, s.Labels.Get("job"))
	}
	slices.Sort(d.Jobs)
	return d
}

// oneOf is a matcher of any of the values; of none of them where there are none.
func oneOf(label string, values []string) string {
	if len(values) == 0 {
		return label + `="",` + label + `!=""`
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return Like(label, strings.Join(quoted, "|"))
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
	if trust := d.trust(name); trust != "" {
		matchers = append([]string{trust}, matchers...)
	}
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
