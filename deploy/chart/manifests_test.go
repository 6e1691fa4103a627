package chart_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
)

// ofHelm are lines of a rendered chart that are about Helm: its labels, and from which
// template a text is.
var ofHelm = regexp.MustCompile(`(?m)^( +(helm\.sh/chart|app\.kubernetes\.io/(managed-by|version)):|# Source:).*\n`)

// TestManifests: deploy/manifests are what the chart renders for each program alone.
func TestManifests(t *testing.T) {
	h := helm(t)
	programs := []string{"adapter", "agent", "autoscaler", "exporter"}
	for _, program := range programs {
		text, err := h.Run(t.Context(), chart.Release{Namespace: "gpuscale-system", Args: []string{"--values", "manifests.yaml", "--set", program + ".enabled=true"}},
			"template", "gpuscale", h.Chart)
		require.NoError(t, err)
		want := "# Rendered from deploy/chart: see deploy/chart/manifests.yaml.\n" + string(ofHelm.ReplaceAll(text, nil))
		golden.Equal(t, filepath.Join("..", "manifests", program+".yaml"), want)
	}
	if files, err := filepath.Glob("../manifests/*"); err != nil || len(files) != len(programs) {
		t.Errorf("deploy/manifests has %q: %v", files, err)
	}
}
