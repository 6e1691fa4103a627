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

	"github.com/gpuscale/gpuscale/internal/await"
)

// TestTenantGuardrails: the API server takes deploy/tenant as it is, and then refuses what the guardrails
// are there for.
func TestTenantGuardrails(t *testing.T) {
	e, admin := typed(t)
	text, err := os.ReadFile(filepath.Join(e.Root, "deploy/tenant/tenant.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Create(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	const tenant = "team-a"
	t.Cleanup(func() { // other tests would see them
		if err := e.Admin.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(tenant), client.GracePeriodSeconds(0)); err != nil {
			t.Error(err)
		}
	})
	pods := admin.CoreV1().Pods(tenant)
	// The quota admits nothing before its controller has counted.
	await.True(t, time.Minute, "the quota's controller", func() bool {
		q, err := admin.CoreV1().ResourceQuotas(tenant).Get(t.Context(), "guardrails", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
	pod := func(name, gpus string, change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
		if gpus != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
		}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	yes := true
	for _, c := range []struct {
		pod     *corev1.Pod
		refused string // "" for admitted
	}{
		{pod("plain", "", nil), ""},
		{pod("six", "6", nil), ""},
		{pod("four-more", "4", nil), "exceeded quota: guardrails"},
		{pod("sixteen", "16", nil), "maximum nvidia.com/gpu usage per Container is 8"},
		{pod("privileged", "", func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}), "violates PodSecurity"},
		{pod("host", "", func(s *corev1.PodSpec) { s.HostNetwork = true }), "violates PodSecurity"},
	} {
		made, err := pods.Create(t.Context(), c.pod, metav1.CreateOptions{})
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.pod.Name, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want %q", c.pod.Name, err, c.refused)
		case c.pod.Name == "plain" && !made.Spec.Containers[0].Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI).IsZero():
			t.Errorf("plain: %v: it asks for no GPU", made.Spec.Containers[0].Resources)
		case c.refused == "" && made.Spec.Containers[0].Resources.Requests.Memory().IsZero():
			t.Errorf("%s has no default for memory", c.pod.Name)
		}
	}
}
