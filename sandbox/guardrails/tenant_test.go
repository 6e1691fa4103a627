package guardrails

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestTenantGuardrails: the API server accepts deploy/tenant unchanged, and then refuses what these
// guardrails are meant to refuse.
func TestTenantGuardrails(t *testing.T) {
	e, admin := typed(t)
	text, err := os.ReadFile(filepath.Join(e.Root, "deploy/tenant/tenant.yaml"))
	require.NoError(t, err)
	require.NoError(t, e.Create(t.Context(), string(text)))
	const tenant = "team-a"
	t.Cleanup(func() { // other tests would see them
		if err := e.Admin.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(tenant), client.GracePeriodSeconds(0)); err != nil {
			t.Error(err)
		}
	})
	pods := admin.CoreV1().Pods(tenant)
	// The quota refuses everything until its controller has counted.
	await.True(t, time.Minute, "the quota's controller", func() bool {
		q, err := admin.CoreV1().ResourceQuotas(tenant).Get(t.Context(), "guardrails", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
	cases, err := os.ReadFile("testdata/tenant.yaml")
	require.NoError(t, err)
	var all []struct {
		Pod     *corev1.Pod
		Refused string // "" if admitted
	}
	require.NoError(t, yaml.UnmarshalStrict(cases, &all))
	for _, c := range all {
		made, err := pods.Create(t.Context(), c.Pod, metav1.CreateOptions{})
		switch {
		case c.Refused == "" && err != nil:
			t.Errorf("%s: %v", c.Pod.Name, err)
		case c.Refused != "" && (err == nil || !strings.Contains(err.Error(), c.Refused)):
			t.Errorf("%s: %v, want %q", c.Pod.Name, err, c.Refused)
		case c.Pod.Name == "plain" && !made.Spec.Containers[0].Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI).IsZero():
			t.Errorf("plain: %v: it asks for no GPU", made.Spec.Containers[0].Resources)
		case c.Refused == "" && made.Spec.Containers[0].Resources.Requests.Memory().IsZero():
			t.Errorf("%s has no default for memory", c.Pod.Name)
		}
	}
}
