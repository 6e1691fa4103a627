package chart

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// again has values for a second release: what a cluster may have twice, and the CRDs, which it may not.
const again = `{image: {registry: registry.example}, exporter: {enabled: false}, autoscaler: {enabled: true, dryRun: true}}`

// TestTwoReleases: docs/install.md uses two releases in one cluster, to run the exporter in its own
// namespace. The CRDs belong to one release. The other release fails with the name of the first one and a
// command that moves the CRDs to the other release.
func TestTwoReleases(t *testing.T) {
	testall.Only(t, "a second release")
	b := start(t)
	require.NoError(t, b.namespace(t.Context(), "second", ""))
	const owner, in = "gpuscale", installed
	h := b.helm
	second := chart.Release{Name: "second", Namespace: "second", Values: again}
	err := h.Install(t.Context(), second)
	if err == nil {
		t.Fatal("the CRDs of another release were taken")
	}
	for _, want := range []string{"crds.install: gpunodepools.gpuscale.io is there already", owner, in, "set crds.install=false here"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}

	off := second
	off.Args = []string{"--set", "crds.install=false"}
	if err := h.Install(t.Context(), off); err != nil {
		t.Fatalf("with crds.install=false: %v", err)
	}
	t.Cleanup(func() {
		if _, err := h.Run(context.Background(), chart.Release{Namespace: "second"}, "uninstall", "second"); err != nil {
			t.Error(err)
		}
	})

	// The other direction: the printed command is run for each CRD.
	give := func(crd, release, namespace string) string {
		return "kubectl annotate --overwrite crd " + crd + " meta.helm.sh/release-name=" + release + " meta.helm.sh/release-namespace=" + namespace
	}
	t.Cleanup(func() {
		for _, crd := range []string{"gpunodepools.gpuscale.io", "gpuquotas.gpuscale.io"} {
			require.NoError(t, b.typeIn(t, give(crd, owner, in)))
		}
	})
	for range 2 {
		err := h.Install(t.Context(), second)
		if err == nil {
			t.Fatal("there are two CRDs, and one was asked for")
		}
		_, command, ok := strings.Cut(err.Error(), "To have it in this release: ")
		if !ok {
			t.Fatal(err)
		}
		command, _, _ = strings.Cut(command, "\n")
		require.NoError(t, b.typeIn(t, command))
	}
	if err := h.Install(t.Context(), second); err != nil {
		t.Errorf("after what was printed was typed: %v", err)
	}
}
