package ledger

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// TestSharesOfGPUs: a ResourceQuota of eight shares is two GPUs where a GPU has four, and pods with
// shares count towards it; parts of GPUs do not.
func TestSharesOfGPUs(t *testing.T) {
	q := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu.shared": resource.MustParse("8")}},
	}
	l := New(Input{ResourceQuotas: []corev1.ResourceQuota{q}, Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, Shares: 4})
	if len(l.Tenants) != 1 || l.Tenants[0].Guarantee != (quota.Amount{Compute: 14, Memory: 16}) {
		t.Fatalf("%+v", l.Tenants)
	}
	share := Claim{Namespace: "a", Demand: demand.Demand{Vendor: "nvidia", Fraction: &demand.Fraction{CoreMilli: 250, MemoryMilli: 250, GPUs: 1}}, Shares: true}
	if got := l.Tenant(share); got != "resourcequota/a/q" {
		t.Errorf("a share counts towards %q", got)
	}
	if share.Shares = false; l.Tenant(share) != "" {
		t.Errorf("a part of a GPU counts towards %q", l.Tenant(share))
	}
	if none := New(Input{ResourceQuotas: []corev1.ResourceQuota{q}}); len(none.Tenants) != 0 {
		t.Errorf("without shared GPUs: %+v", none.Tenants)
	}
}
