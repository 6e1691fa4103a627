package alerts

import (
	"fmt"
	"strconv"
	"strings"
)

// Interval between two evaluations.
const Interval = "1m"

// Runbooks is the public URL of docs/runbooks.
const Runbooks = "https://github.com/gpuscale/gpuscale/blob/main/docs/runbooks"

const head = "# Written from dashboards/alerts; make generate writes it again.\n"

// Render returns the rules as Prometheus reads them.
func Render() []byte {
	var b strings.Builder
	b.WriteString(head + "groups:\n")
	for _, g := range Groups() {
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

// ChartData returns the alerts as the Helm chart's template reads them, with a token
// where values choose a number. A threshold is text, "" for none: a template would turn a
// number into a float.
func ChartData() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%sinterval: %s\nrunbooks: %s\ngroups:\n", head, Interval, Runbooks)
	for _, g := range Groups() {
		fmt.Fprintf(&b, "- name: %s\n  alerts:\n", g.Name)
		for _, a := range g.Alerts {
			fmt.Fprintf(&b, "  - name: %s\n    program: %q\n    severity: %s\n    threshold: %q\n    for: %q\n    summary: %s\n    description: %s\n    expr: |-\n      %s\n",
				a.Name, a.Program, a.Severity, a.threshold(), a.hold(), strconv.QuoteToASCII(a.Summary), strconv.QuoteToASCII(a.Description), a.With(chartThreshold))
		}
	}
	return []byte(b.String())
}
