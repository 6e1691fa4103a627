package alerts

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
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

// chartThreshold is replaced by a number in the chart's template. anyThreshold, a number that no query
// has, stands for it while a query is made.
const (
	chartThreshold = "@threshold@"
	anyThreshold   = "271828182845"
)

type chartFile struct {
	Interval string       `yaml:"interval"`
	Runbooks string       `yaml:"runbooks"`
	Groups   []chartGroup `yaml:"groups"`
}

type chartGroup struct {
	Name   string       `yaml:"name"`
	Alerts []chartAlert `yaml:"alerts"`
}

// chartAlert is an alert in the form of the chart's template. Threshold is text, "" for
// none: a template would turn a number into a float.
type chartAlert struct {
	Name        string            `yaml:"name"`
	Enabled     bool              `yaml:"enabled"`
	Program     string            `yaml:"program"`
	Severity    string            `yaml:"severity"`
	Threshold   string            `yaml:"threshold"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Summary     string            `yaml:"summary"`
	Description string            `yaml:"description"`
	Expr        string            `yaml:"expr"`
}

// ChartData returns the alerts as the Helm chart's template reads them: disabled
// ones too, with a token where values choose a number.
func ChartData() ([]byte, error) {
	out := chartFile{Interval: Interval, Runbooks: Runbooks}
	for _, g := range Groups() {
		group := chartGroup{Name: g.Name}
		for _, a := range g.Alerts {
			d := chartAlert{
				Name: a.Name, Enabled: true, Program: string(a.Program), Severity: string(a.Severity), Labels: map[string]string{},
				Threshold: a.params(Values{}).Threshold, Summary: a.Summary, Description: a.Description,
				Expr: strings.ReplaceAll(a.Query(Params{Threshold: anyThreshold, Jobs: Jobs()}), anyThreshold, chartThreshold),
			}
			if a.For > 0 {
				d.For = model.Duration(a.For).String()
			}
			if has := strings.Contains(d.Expr, chartThreshold); has != (a.Threshold != nil) {
				return nil, fmt.Errorf("alert %s: threshold %q and query %q do not match", a.Name, d.Threshold, d.Expr)
			}
			group.Alerts = append(group.Alerts, d)
		}
		out.Groups = append(out.Groups, group)
	}
	var b bytes.Buffer
	b.WriteString(head)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("writing the alerts: %w", err)
	}
	return b.Bytes(), nil
}
