package chart

import (
	"context"
	"strings"
	"testing"
)

// lookAtNothing runs doctor before gpuscale is installed. Tests check these reports later, in any order.
func (b *plane) lookAtNothing(ctx context.Context) error {
	kubeconfig, err := b.mine()
	if err != nil {
		return err
	}
	if b.bare, err = b.run(ctx, kubeconfig, "--prometheus-url", b.Cluster.PrometheusURL()); err != nil {
		return err
	}
	b.unaided, err = b.run(ctx, kubeconfig)
	return err
}

// TestNothingInstalled: doctor reports only once that gpuscale is missing.
func TestNothingInstalled(t *testing.T) {
	b := onPlane(t)
	for name, v := range map[string]visit{"with Prometheus": b.bare, "without": b.unaided} {
		t.Run(name, func(t *testing.T) {
			if v.code == exitNothing {
				t.Errorf("exit %d, as if all were well", v.code)
			}
			text := v.out + v.errors
			t.Logf("exit %d after %s\n%s", v.code, v.took, text)
			if lines := strings.Count(text, "\n"); lines > 12 {
				t.Errorf("%d lines", lines)
			}
			for _, part := range []string{"helm install", "docs/quick-start.md"} {
				if !strings.Contains(text, part) {
					t.Errorf("nothing of %q", part)
				}
			}
		})
	}
}
