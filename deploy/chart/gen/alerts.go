package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
)

// thresholdToken stands for the number in a query until the chart's template
// puts one there.
const thresholdToken = "@threshold@"

type alertGroups struct {
	Interval string       `yaml:"interval"`
	Runbooks string       `yaml:"runbooks"`
	Groups   []alertGroup `yaml:"groups"`
}

type alertGroup struct {
	Name   string      `yaml:"name"`
	Alerts []alertData `yaml:"alerts"`
}

// alertData is an alert as the chart's template wants it. Threshold is text, ""
// for none: a template would turn a number into a float and 0.1 into anything.
type alertData struct {
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

// alertsFile is the alerts as data, with a token where a number can be chosen.
func alertsFile() ([]byte, error) {
	out := alertGroups{Interval: alerts.Interval, Runbooks: alerts.Runbooks}
	for _, g := range alerts.Groups() {
		group := alertGroup{Name: g.Name}
		for _, a := range g.Alerts {
			d := alertData{
				Name: a.Name, Enabled: a.Enabled, Program: string(a.Program), Severity: string(a.Severity), Labels: a.Labels,
				Summary: a.Summary, Description: a.Description,
				Expr: a.Query(alerts.Params{Threshold: thresholdToken, Jobs: alerts.Jobs()}),
			}
			if d.Labels == nil {
				d.Labels = map[string]string{}
			}
			if a.For > 0 {
				d.For = model.Duration(a.For).String()
			}
			if a.Threshold != nil {
				d.Threshold = strconv.FormatFloat(*a.Threshold, 'f', -1, 64)
			}
			if has := strings.Contains(d.Expr, thresholdToken); has != (a.Threshold != nil) {
				return nil, fmt.Errorf("alert %s: its query and its threshold do not belong together", a.Name)
			}
			group.Alerts = append(group.Alerts, d)
		}
		out.Groups = append(out.Groups, group)
	}
	var b bytes.Buffer
	b.WriteString("# Written from dashboards/alerts by make chart-generate.\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("writing the alerts: %w", err)
	}
	return b.Bytes(), nil
}
