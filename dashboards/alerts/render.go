package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// Interval between two evaluations.
const Interval = "1m"

const head = "# Written from dashboards/alerts; make generate writes it again.\n"

// Render returns the rules as Prometheus reads them. The error is of the values.
func Render(v Values) ([]byte, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(head + "groups:\n")
	for _, g := range Groups() {
		var rules []string
		for _, a := range g.Alerts {
			if a, wanted := v.apply(a); wanted {
				rules = append(rules, rule(a, v))
			}
		}
		if len(rules) > 0 { // Prometheus requests no empty group
			fmt.Fprintf(&b, "- name: %s\n  interval: %s\n  rules:\n%s", g.Name, Interval, strings.Join(rules, ""))
		}
	}
	return []byte(b.String()), nil
}

func rule(a Alert, v Values) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  # %s\n  - alert: %s\n    expr: |-\n      %s\n", a.Why, a.Name, strings.ReplaceAll(a.Query(a.params(v)), "\n", "\n      "))
	if a.For > 0 {
		fmt.Fprintf(&b, "    for: %s\n", model.Duration(a.For))
	}
	labels := maps.Clone(v.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["severity"] = string(a.Severity)
	b.WriteString("    labels:\n")
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "      %s: %s\n", l, strconv.QuoteToASCII(labels[l]))
	}
	fmt.Fprintf(&b, "    annotations:\n      summary: %s\n      description: %s\n      runbook_url: %s\n",
		strconv.QuoteToASCII(a.Summary), strconv.QuoteToASCII(a.Description), strconv.QuoteToASCII(a.Runbook(v.Runbooks)))
	return b.String()
}

// Runbook is the URL of the alert's page below a base, Runbooks for none.
func (a Alert) Runbook(base string) string {
	if base == "" {
		base = Runbooks
	}
	return strings.TrimSuffix(base, "/") + "/" + a.Name + ".md"
}

// params are the parameters from the values, numbers as Prometheus reads them.
func (a Alert) params(v Values) Params {
	p := Params{Jobs: v.jobs(), Trusted: v.trusted()}
	if a.Threshold != nil {
		p.Threshold = strconv.FormatFloat(*a.Threshold, 'f', -1, 64)
	}
	return p
}
