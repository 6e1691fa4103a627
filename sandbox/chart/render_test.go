package chart

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// rendering is a combination as Helm renders it. The objects are read-only.
type rendering struct {
	chart.Combination
	objects []*unstructured.Unstructured
}

// few lists the combinations that make test uses: the most common ones, and everything.
var few = []string{"defaults", "all programs", "agent asked by none", "Prometheus with a secret"}

// renderings returns every combination, or only a few in make test. They are rendered once for all tests,
// since each takes a third of a second.
var renderings = sync.OnceValues(func() (all []rendering, _ error) {
	b, err := control.Env(context.Background())
	if err != nil {
		return nil, err
	}
	for _, c := range chart.Combinations() {
		if !testall.Enabled() && !slices.Contains(few, c.Name) {
			continue
		}
		objects, err := b.helm.Template(context.Background(), chart.Release{Name: "demo", Namespace: "combinations", Values: c.Values})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, rendering{c, objects})
	}
	return all, nil
})

func renderAll(t *testing.T) []rendering {
	t.Helper()
	all, err := renderings()
	require.NoError(t, err)
	return all
}
