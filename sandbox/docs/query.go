package docs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// scraped are labels that every series may have because it was scraped. Users with several clusters in one
// Prometheus add the label cluster.
var scraped = []string{
	"__name__", "job", "instance", "cluster", "namespace", "pod", "container", "node", "service", "endpoint",
	"exported_namespace", "exported_pod", "exported_container", "exported_node",
}

// others are series that neither our programs nor the programs we read expose: Prometheus' own about scrapes
// and alerts. Their labels are not checked.
var others = []string{
	"up", "ALERTS", "ALERTS_FOR_STATE",
	"scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_duration_seconds", "scrape_series_added",
	"prometheus_tsdb_head_series", "prometheus_rule_evaluation_failures_total",
}

// placeholder matches a name that the reader replaces.
var placeholder = regexp.MustCompile(`^[A-Z]+$`)

// CheckQueries parses a block of PromQL. A query may continue over several lines. It reports unknown names,
// and labels that a series does not have.
func (b Block) CheckQueries() error {
	var problems []error
	text, from := "", b.Line
	var broken error
	for i, line := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
		if t := strings.TrimSpace(line); t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		if text == "" {
			from = b.Line + i
		}
		text += line + "\n"
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if broken = err; err != nil {
			continue
		}
		text = ""
		for _, problem := range unknown(expr) {
			problems = append(problems, fmt.Errorf("line %d: %w", from, problem))
		}
	}
	if text != "" {
		problems = append(problems, fmt.Errorf("line %d: %w", from, broken))
	}
	return errors.Join(problems...)
}

// unknown reports unknown names and labels in the selectors of a query.
func unknown(expr parser.Expr) []error {
	var problems []error
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			problems = append(problems, unknownIn(s)...)
		}
		return nil
	})
	return problems
}

func unknownIn(s *parser.VectorSelector) []error {
	name := ""
	for _, m := range s.LabelMatchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			name = m.Value
		}
	}
	if name == "" || slices.Contains(others, name) || placeholder.MatchString(name) {
		return nil // a selector of any name, or not one of our series
	}
	have, ok := labelsOf(name)
	if !ok {
		return []error{fmt.Errorf("unknown series %s: not in docs/metrics.md, no recording rule, and not a known series of others", name)}
	}
	var problems []error
	for _, m := range s.LabelMatchers {
		if !slices.Contains(have, m.Name) && !slices.Contains(scraped, m.Name) {
			problems = append(problems, fmt.Errorf("%s has no label %s, only %s", name, m.Name, strings.Join(have, ", ")))
		}
	}
	return problems
}

// labelsOf returns the labels of a series by its definition; false if there is no series of that name.
func labelsOf(name string) ([]string, bool) {
	if r, ok := rules.Find(name); ok {
		return r.Labels, true
	}
	for _, form := range []struct{ suffix, label string }{{"", ""}, {"_bucket", "le"}, {"_sum", ""}, {"_count", ""}} {
		base, ok := strings.CutSuffix(name, form.suffix)
		if !ok {
			continue
		}
		histogram := form.suffix != ""
		if d, ok := metric.Find(base); ok && histogram == (d.Type == metric.Histogram) {
			return append(d.AllLabels(), form.label), true
		}
		if r, ok := metric.FindRead(base); ok && histogram == (r.Type == metric.Histogram) {
			return append(slices.Clone(r.Labels), form.label), true
		}
	}
	return nil, false
}

// seriesName matches one of our series in a sentence, with matchers or label names.
var seriesName = regexp.MustCompile(`^((?:gpu|gpuscale)_[a-z0-9_]+)(?:\{([^}]*)\})?$`)

// otherNames look like our series but are something else: columns of replay's lists, and a label that the
// metrics APIs accept.
var otherNames = []string{"gpu_milli", "gpu_spec", "gpuscale_source"}

// checkSeries checks a text in a sentence that looks like one of our series. It must be one, with these
// labels, or one of our labels, or a signal for HPAs.
func checkSeries(text string) error {
	m := seriesName.FindStringSubmatch(text)
	if m == nil || slices.Contains(otherNames, m[1]) {
		return nil
	}
	have, ok := labelsOf(m[1])
	if !ok {
		have, ok = labelsOf(m[1] + "_bucket")
	}
	if !ok {
		if m[2] == "" && (isLabel(m[1]) || isSignal(m[1])) {
			return nil
		}
		return fmt.Errorf("unknown series %s", m[1])
	}
	for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
		if !slices.Contains(have, l[1]) && !slices.Contains(scraped, l[1]) {
			return fmt.Errorf("%s has no label %s, only %s", m[1], l[1], strings.Join(have, ", "))
		}
	}
	return nil
}

// labelName matches the label at the beginning of each matcher; values are in quotes.
var labelName = regexp.MustCompile(`(?:^|,) *([a-z_]+)`)

func isLabel(name string) bool {
	return slices.ContainsFunc(metric.All(), func(d metric.Desc) bool { return slices.Contains(d.AllLabels(), name) })
}

func isSignal(name string) bool {
	return slices.ContainsFunc(signal.Builtin(time.Minute), func(r signal.Rule) bool { return r.Name == name })
}
