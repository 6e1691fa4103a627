package chart

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// rendering is a combination as Helm writes it. The objects are read-only.
type rendering struct {
	chart.Combination
	text    []byte
	objects []*unstructured.Unstructured
}

var (
	renderOnce   sync.Once
	renderings   []rendering
	renderFailed error
)

// few are the combinations of make test: the most common ones, and everything.
var few = []string{"defaults", "all programs", "agent asked by none", "Prometheus with a secret"}

// renderAll renders every combination, or a few in make test, once for all tests: each
// takes a third of a second.
func renderAll(t *testing.T, b *plane) []rendering {
	t.Helper()
	renderOnce.Do(func() {
		for _, c := range chart.Combinations() {
			if !testall.Enabled() && !slices.Contains(few, c.Name) {
				continue
			}
			r := rendering{Combination: c}
			release := chart.Release{Namespace: "combinations", Values: c.Values}
			if r.text, renderFailed = b.helm.Run(context.Background(), release, "template", "demo", b.helm.Chart); renderFailed == nil {
				r.objects, renderFailed = chart.Objects(r.text)
			}
			if renderFailed != nil {
				renderFailed = fmt.Errorf("%s: %w", c.Name, renderFailed)
				return
			}
			renderings = append(renderings, r)
		}
	})
	if renderFailed != nil {
		t.Fatal(renderFailed)
	}
	return renderings
}
