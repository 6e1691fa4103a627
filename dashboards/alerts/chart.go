package alerts

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

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
