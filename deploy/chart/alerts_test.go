package chart_test

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
)

// TestAlerts: the chart's template and alerts.Render are two ways to the same
// rules, whatever is overridden.
func TestAlerts(t *testing.T) {
	h := helm(t)
	for _, c := range []struct{ name, chart, render string }{
		{"as they are", `{}`, `{}`},
		{"overridden",
			`{monitoring: {rules: {runbookBase: "https://wiki.example/r", overrides: {GpuscaleExporterDown: {enabled: false}, GpuscaleAttributionFailing: {threshold: 0.25, for: 1h, severity: info}}}}}`,
			`{runbooks: "https://wiki.example/r", alerts: {GpuscaleExporterDown: {enabled: false}, GpuscaleAttributionFailing: {threshold: 0.25, for: 1h, severity: info}}}`},
		{"the exporter alone", ``, `{programs: [exporter]}`},
		{"a large number", `{monitoring: {rules: {overrides: {GpuscaleAttributionFailing: {threshold: 5000000}}}}}`, `{alerts: {GpuscaleAttributionFailing: {threshold: 5000000}}}`},
		{"other exporters", `{adapter: {exporterNamespaces: [dcgm]}, autoscaler: {exporterNamespaces: [gpus, dcgm]}}`, `{namespaces: [gpus-of-ours, dcgm, gpus]}`},
		{"all targets", `{adapter: {exporterNamespaces: ["*"]}}`, `{namespaces: ["*"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, err := alerts.Parse([]byte(c.render))
			if err != nil {
				t.Fatal(err)
			}
			if len(values.Namespaces) == 0 { // the release's alone
				values.Namespaces = []string{"gpus-of-ours"}
			}
			text, err := alerts.Render(values)
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			on := "monitoring.rules.alerts=true"
			if len(values.Programs) == 0 { // all that have alerts
				on += ",adapter.enabled=true,autoscaler.enabled=true"
			}
			objects, err := h.Template(t.Context(), releaseWith(c.chart, "--set", on))
			if err != nil {
				t.Fatal(err)
			}
			var got any
			for _, o := range objects {
				if o.GetKind() == "PrometheusRule" {
					got, _, _ = unstructured.NestedMap(o.Object, "spec")
				}
			}
			if g, w := asJSON(t, got), asJSON(t, want); g != w {
				t.Errorf("alerts.Render has (-), the chart has (+)\n%s", difference(w, g))
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
