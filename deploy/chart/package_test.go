package chart_test

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/gpuscale/gpuscale/deploy/chart"
)

// TestPackage: a package has the boards, rules and CRDs of the checkout;
// what is installed is the same.
func TestPackage(t *testing.T) {
	h := helm(t)
	dir := t.TempDir()
	if _, err := h.Run(t.Context(), chart.Release{}, "package", h.Chart, "--destination", dir); err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	installed := func(h chart.Helm) map[string]any {
		out := map[string]any{}
		for _, o := range render(t, h, chart.Everything) {
			switch o.GetKind() {
			case "CustomResourceDefinition", "PrometheusRule", "ConfigMap":
				out[id(o)] = o.Object
			}
		}
		return out
	}
	checkout := installed(h)
	h.Chart = packages[0]
	packed := installed(h)
	if d := diff.Diff(checkout, packed); d != "" {
		t.Errorf("checkout (-), package (+)\n%s", d)
	}
	counted := map[string]int{}
	for name := range packed {
		for _, kind := range []string{"CustomResourceDefinition", "PrometheusRule", "-board-"} {
			if strings.Contains(name, kind) {
				counted[kind]++
			}
		}
	}
	boards, err := filepath.Glob("gpuscale/files/dashboards/*.json")
	if err != nil || len(boards) == 0 || counted["-board-"] != len(boards) || counted["CustomResourceDefinition"] != 2 || counted["PrometheusRule"] != 2 {
		t.Errorf("the package installs %v, the checkout has %d boards: %v", counted, len(boards), err)
	}
}
