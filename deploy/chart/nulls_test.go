package chart_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// nulled returns values in which everything that need not be there is null, and how
// many that is.
func (n *node) nulled() (values map[string]any, count int) {
	values = map[string]any{}
	for key, child := range n.Properties {
		switch {
		case !slices.Contains(n.Required, key):
			values[key] = nil
			count++
		case child.Properties != nil:
			below, c := child.nulled()
			values[key] = below
			count += c
		}
	}
	return values, count
}

// TestNullIsNothing: "config:" with nothing behind it, as a comment leaves it, is null,
// and Helm takes the key away with its default. Whatever may be null is rendered.
func TestNullIsNothing(t *testing.T) {
	h := helm(t)
	for _, with := range []string{
		`{agent: {enabled: true}, report: {enabled: true, persistence: {enabled: true}}, monitoring: {scrape: ServiceMonitor, rules: {recording: true, alerts: true}, dashboards: {enabled: true}}, networkPolicy: {enabled: true, egress: {enabled: true, to: [{}]}}}`,
		`{agent: {enabled: true}, exporter: {allocatedPodLabels: true, nodeCondition: true, profiling: true}, monitoring: {scrape: PodMonitor}}`,
		`{agent: {enabled: true}, adapter: {certificate: {source: cert-manager}}, autoscaler: {pools: {clusterAPI: true}}, monitoring: {scrape: annotations}}`,
		`{adapter: {certificate: {source: secret, secretName: mine}}, monitoring: {scrape: ServiceMonitor}}`,
	} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			values, count := valuesSchema(t).nulled()
			if count < 100 {
				t.Fatalf("only %d values may be null", count)
			}
			var given map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(with), &given))
			over(values, given)
			text, err := yaml.Marshal(values)
			require.NoError(t, err)
			out, err := h.Run(t.Context(), chart.Release{Name: release, Namespace: namespace, Values: string(text)}, "template", release, h.Chart)
			require.NoError(t, err)
			if strings.Contains(string(out), "<nil>") || strings.Contains(string(out), "<no value>") {
				t.Error("something is written where no value was given")
			}
			if _, err := chart.Objects(out); err != nil {
				t.Error(err)
			}
		})
	}
}

// over puts b over a.
func over(a, b map[string]any) {
	for key, v := range b {
		below, isMap := v.(map[string]any)
		if have, both := a[key].(map[string]any); isMap && both {
			over(have, below)
			continue
		}
		a[key] = v
	}
}
