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

// scraped are labels that a series has by being scraped, whatever its own are; cluster
// is for who has several in one Prometheus.
var scraped = []string{
	"__name__", "job", "instance", "cluster", "namespace", "pod", "container", "node", "service", "endpoint",
	"exported_namespace", "exported_pod", "exported_container", "exported_node",
}

// others are series that neither we nor whom we read from make: Prometheus' own of a
// scrape and of alerts. Their labels are not judged.
var others = []string{
	"up", "ALERTS", "ALERTS_FOR_STATE",
	"scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_duration_seconds", "scrape_series_added",
	"prometheus_tsdb_head_series", "prometheus_rule_evaluation_failures_total",
}

// placeholder is a name that the reader fills in.
var placeholder = regexp.MustCompile(`^[A-Z]+$`)

// CheckQueries parses a block of PromQL, a query going on over lines until it can be
// parsed, and returns the unknown names, and the labels that their series lack.
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

// unknown names and labels in the selectors of a query.
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
		return nil // of any name, or none of ours to know
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

// labelsOf a series by its own making; false if there is none of that name.
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

// seriesName is a series of ours within a sentence, with labels or their names.
var seriesName = regexp.MustCompile(`^((?:gpu|gpuscale)_[a-z0-9_]+)(?:\{([^}]*)\})?$`)

// otherNames look like series and are none: columns of replay's lists, a label that
// metrics APIs take.
var otherNames = []string{"gpu_milli", "gpu_spec", "gpuscale_source"}

// checkSeries reports whether what looks like a series of ours within a sentence is one,
// or one of our labels, or a signal for HPAs; and whether it has the labels.
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

// labelName is at the beginning of each matcher; values have quotes.
var labelName = regexp.MustCompile(`(?:^|,) *([a-z_]+)`)

func isLabel(name string) bool {
	return slices.ContainsFunc(metric.All(), func(d metric.Desc) bool { return slices.Contains(d.AllLabels(), name) })
}

func isSignal(name string) bool {
	return slices.ContainsFunc(signal.Builtin(time.Minute), func(r signal.Rule) bool { return r.Name == name })
}
