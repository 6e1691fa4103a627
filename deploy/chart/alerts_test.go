package chart_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestAlerts: the chart's template has the rules of alerts.Render, with the values' changes.
func TestAlerts(t *testing.T) {
	h := helm(t)
	for _, c := range []struct {
		name, chart string
		trusted     []string // beside the release's namespace
		change      func(alert map[string]any) bool
	}{
		{"as they are", `{}`, nil, func(map[string]any) bool { return true }},
		{"overridden",
			`{monitoring: {rules: {runbookBase: "https://wiki.example/r/", overrides: {GpuscaleExporterDown: {enabled: false}, GpuscaleAttributionFailing: {threshold: 0.25, for: 1h, severity: info, labels: {team: ml}}}}}}`,
			nil, func(a map[string]any) bool {
				notes := a["annotations"].(map[string]any)
				notes["runbook_url"] = strings.ReplaceAll(notes["runbook_url"].(string), alerts.Runbooks, "https://wiki.example/r")
				if a["alert"] == "GpuscaleAttributionFailing" {
					a["expr"] = strings.ReplaceAll(a["expr"].(string), "> 300 ", "> 0.25 ")
					a["for"], a["labels"] = "1h", map[string]any{"severity": "info", "team": "ml"}
				}
				return a["alert"] != "GpuscaleExporterDown"
			}},
		{"a large number", `{monitoring: {rules: {overrides: {GpuscaleAttributionFailing: {threshold: 5000000}}}}}`, nil, func(a map[string]any) bool {
			if a["alert"] == "GpuscaleAttributionFailing" {
				a["expr"] = strings.ReplaceAll(a["expr"].(string), "> 300 ", "> 5000000 ")
			}
			return true
		}},
		{"the exporter alone", ``, nil, func(a map[string]any) bool {
			return slices.ContainsFunc(alerts.All(), func(one alerts.Alert) bool {
				return one.Name == a["alert"] && (one.Program == "" || one.Program == "exporter")
			})
		}},
		{"other exporters", `{adapter: {exporterNamespaces: [dcgm]}, autoscaler: {exporterNamespaces: [gpus, dcgm]}}`, []string{"dcgm", "gpus"}, func(map[string]any) bool { return true }},
		{"all targets", `{adapter: {exporterNamespaces: ["*"]}}`, []string{"*"}, func(map[string]any) bool { return true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			matcher := sources.Match(append([]string{"gpus-of-ours"}, c.trusted...))
			var file map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(strings.NewReplacer(sources.Matcher, matcher, "-n gpuscale-system", "-n gpus-of-ours").Replace(string(alerts.Render()))), &file))
			var groups []any
			for _, g := range file["groups"].([]any) {
				group, rules := g.(map[string]any), []any{}
				for _, a := range group["rules"].([]any) {
					if c.change(a.(map[string]any)) {
						rules = append(rules, a)
					}
				}
				if group["rules"] = rules; len(rules) > 0 {
					groups = append(groups, group)
				}
			}
			on := "monitoring.rules.alerts=true"
			if c.chart != "" { // all that have alerts
				on += ",adapter.enabled=true,autoscaler.enabled=true"
			}
			objects, err := h.Template(t.Context(), releaseWith(c.chart, "--set", on))
			require.NoError(t, err)
			var got any
			for _, o := range objects {
				if o.GetKind() == "PrometheusRule" {
					got, _, _ = unstructured.NestedMap(o.Object, "spec")
				}
			}
			if d := diff.Diff(map[string]any{"groups": groups}, got); d != "" {
				t.Errorf("alerts.Render has (-), the chart has (+)\n%s", d)
			}
		})
	}
}
