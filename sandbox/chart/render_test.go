package chart

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/deploy/chart"
)

// rendering is a combination as Helm writes it. Nobody changes the objects.
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

// renderAll renders every combination, once for all tests: each takes a third of
// a second.
func renderAll(t *testing.T, b *bed) []rendering {
	t.Helper()
	renderOnce.Do(func() {
		for _, c := range chart.Combinations() {
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
