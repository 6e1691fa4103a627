package loop

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// TestQuotaStatus: a quota's usage is written at most every few seconds, its conditions at
// once.
func TestQuotaStatus(t *testing.T) {
	made := &v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "team", Generation: 3}}
	c := cluster(t, made)
	a := c.publisher()
	reconcile := func(after time.Duration, gpus int, problem error) v1alpha1.GPUQuotaStatus {
		t.Helper()
		var q v1alpha1.GPUQuota
		if err := c.Get(t.Context(), client.ObjectKey{Name: "team"}, &q); err != nil {
			t.Fatal(err)
		}
		all := quota.All()
		r := Reconcile{Observation: observe.Observation{
			Snapshot: plan.Snapshot{
				Now:     time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).Add(after),
				Tenants: []plan.Tenant{{Tenant: quota.Tenant{Name: "team", Guarantee: quota.Amount{Compute: 14, Memory: 16}, Limit: all, Borrow: all, Lend: all}}},
				Pods:    []plan.Pod{{Namespace: "n", Name: "p", Node: "x", Tenant: "team", Demand: demand.Demand{GPUs: gpus, Vendor: "nvidia"}}},
			},
			Quotas: []v1alpha1.GPUQuota{q}, QuotaProblems: map[string]error{},
		}}
		if problem != nil {
			r.QuotaProblems["GPUQuota team"] = problem
		}
		if err := a.quotas(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "team"}, &q); err != nil {
			t.Fatal(err)
		}
		return q.Status
	}
	if s := reconcile(0, 1, nil); s.Used != "1" || s.Guaranteed != "2" || s.ObservedGeneration != made.Generation || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", s)
	}
	if s := reconcile(time.Second, 2, nil); s.Used != "1" {
		t.Errorf("written again after a second: %+v", s)
	}
	if s := reconcile(2*time.Second, 2, errors.New("spec.parent: a circle")); s.Used != "2" || s.Conditions[0].Status != metav1.ConditionFalse || s.Conditions[0].Message != "spec.parent: a circle" {
		t.Errorf("%+v", s)
	}
	if s := reconcile(10*time.Second, 3, nil); s.Used != "3" || s.Borrowed != "1" || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", s)
	}
}
