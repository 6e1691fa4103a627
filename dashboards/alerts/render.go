package alerts

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
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
				fmt.Fprintf(&b, "    for: %s\n", model.Duration(a.For))
			}
			fmt.Fprintf(&b, "    labels:\n      severity: %q\n    annotations:\n      summary: %s\n      description: %s\n      runbook_url: %q\n",
				a.Severity, strconv.QuoteToASCII(a.Summary), strconv.QuoteToASCII(a.Description), Runbooks+"/"+a.Name+".md")
		}
	}
	return []byte(b.String())
}

// chartThreshold is replaced by a number in the chart's template.
const chartThreshold = "@threshold@"

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
	Name        string `yaml:"name"`
	Program     string `yaml:"program"`
	Severity    string `yaml:"severity"`
	Threshold   string `yaml:"threshold"`
	For         string `yaml:"for"`
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	Expr        string `yaml:"expr"`
}

// ChartData returns the alerts as the Helm chart's template reads them, with a token
// where values choose a number.
func ChartData() ([]byte, error) {
	out := chartFile{Interval: Interval, Runbooks: Runbooks}
	for _, g := range Groups() {
		group := chartGroup{Name: g.Name}
		for _, a := range g.Alerts {
			d := chartAlert{
				Name: a.Name, Program: string(a.Program), Severity: string(a.Severity), Threshold: a.threshold(),
				Summary: a.Summary, Description: a.Description, Expr: a.With(chartThreshold),
			}
			if a.For > 0 {
				d.For = model.Duration(a.For).String()
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
