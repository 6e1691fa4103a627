package alerts

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Severity is how soon an alert needs attention.
type Severity string

// Severities.
const (
	Critical Severity = "critical" // page at once
	Warning  Severity = "warning"  // look within the day
	Info     Severity = "info"     // for information
)

// Alert is one alerting rule.
type Alert struct {
	Name     string
	Severity Severity
	// Program exposes the series that the alert reads first; "" if there are several. The alert is left out where the
	// program is not installed.
	Program metric.Owner
	// Threshold is what the value is compared with; 0 where there is none.
	Threshold float64
	// For is how long the condition must hold.
	For time.Duration
	// Why explains Threshold and For.
	Why string
	// Summary is one line. Description says what the alert means and what to do first. Both may contain Prometheus
	// templates.
	Summary, Description string

	// query has anyThreshold in place of the threshold.
	query string
}

// anyThreshold stands for the threshold in a query: a number that no query has.
const anyThreshold = "271828182845"

// Query is the alert's PromQL, over series of trusted targets only.
func (a Alert) Query() string { return a.With(a.threshold()) }

// With returns Query with another threshold. It panics if the alert's query is not valid PromQL; a test finds
// that.
func (a Alert) With(threshold string) string {
	query, err := sources.Trusted(a.query, sources.Matcher)
	if err != nil {
		panic(fmt.Sprintf("alert %s: %v", a.Name, err))
	}
	return strings.ReplaceAll(query, anyThreshold, threshold)
}

// threshold as Prometheus reads it, "" for none.
func (a Alert) threshold() string {
	if a.Threshold == 0 {
		return ""
	}
	return strconv.FormatFloat(a.Threshold, 'f', -1, 64)
}

// hold is For as Prometheus reads it, "" for none.
func (a Alert) hold() string {
	if a.For == 0 {
		return ""
	}
	return model.Duration(a.For).String()
}

// Group is alerts that are evaluated together.
type Group struct {
	Name   string
	Alerts []Alert
}

// groups returns the alerts in the groups and order of the file.
func groups() []Group {
	return []Group{
		{"gpuscale.exporter", exporter()},
		{"gpuscale.gpus", gpus()},
		{"gpuscale.adapter", adapter()},
		{"gpuscale.autoscaler", autoscaler()},
		{"gpuscale.capacity", capacity()},
	}
}

// All returns every alert, in the file's order.
func All() []Alert {
	var all []Alert
	for _, g := range groups() {
		all = append(all, g.Alerts...)
	}
	return all
}

// Interval between two evaluations.
const Interval = "1m"

// Runbooks is the public URL of docs/runbooks.
const Runbooks = "https://github.com/gpuscale/gpuscale/blob/main/docs/runbooks"

const head = "# Written from dashboards/alerts; make generate writes it again.\n"

// Render returns the rules as Prometheus reads them.
func Render() []byte {
	var b strings.Builder
	b.WriteString(head + "groups:\n")
	for _, g := range groups() {
		fmt.Fprintf(&b, "- name: %s\n  interval: %s\n  rules:\n", g.Name, Interval)
		for _, a := range g.Alerts {
			fmt.Fprintf(&b, "  # %s\n  - alert: %s\n    expr: |-\n      %s\n", a.Why, a.Name, a.Query())
			if a.For > 0 {
				fmt.Fprintf(&b, "    for: %s\n", a.hold())
			}
			fmt.Fprintf(&b, "    labels:\n      severity: %q\n    annotations:\n      summary: %s\n      description: %s\n      runbook_url: %q\n",
				a.Severity, strconv.QuoteToASCII(a.Summary), strconv.QuoteToASCII(a.Description), Runbooks+"/"+a.Name+".md")
		}
	}
	return []byte(b.String())
}

// chartThreshold is replaced by a number in the chart's template.
const chartThreshold = "@threshold@"

// ChartData returns the alerts for the Helm chart's template, with a token where a chart value sets a number.
// A threshold is text, "" for none: a template would turn a number into a float.
func ChartData() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%sinterval: %s\nrunbooks: %s\ngroups:\n", head, Interval, Runbooks)
	for _, g := range groups() {
		fmt.Fprintf(&b, "- name: %s\n  alerts:\n", g.Name)
		for _, a := range g.Alerts {
			fmt.Fprintf(&b, "  - name: %s\n    program: %q\n    severity: %s\n    threshold: %q\n    for: %q\n    summary: %s\n    description: %s\n    expr: |-\n      %s\n",
				a.Name, a.Program, a.Severity, a.threshold(), a.hold(), strconv.QuoteToASCII(a.Summary), strconv.QuoteToASCII(a.Description), a.With(chartThreshold))
		}
	}
	return []byte(b.String())
}
