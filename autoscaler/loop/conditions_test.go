package loop

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

// TestRemarks: the conditions are set only while true, name the remedy, and list a bounded
// number of GPUs.
func TestRemarks(t *testing.T) {
	pool := named("p")
	pool.Spec.Provider.Scale = &v1alpha1.ScaleProvider{Kind: "Herd", Name: "h100"}
	r := Reconcile{
		Observation: observe.Observation{Snapshot: plan.Snapshot{Nodes: []plan.Node{{Name: "n1", Pool: "p"}, {Name: "other"}}}},
		Plan:        plan.Plan{Verdicts: []plan.Verdict{{Kind: plan.KindGPU, Subject: "n1/0", Reason: plan.GPUFree}, {Kind: plan.KindGPU, Subject: "other/0", Reason: plan.GPUUnused}}},
	}
	for i := range 7 {
		r.Plan.Verdicts = append(r.Plan.Verdicts, plan.Verdict{Kind: plan.KindGPU, Subject: fmt.Sprintf("n1/%d", 1+i), Reason: plan.GPUUnused})
	}
	setRemarks(pool, true, unusedGPUs(r)["p"])
	only, unused := meta.FindStatusCondition(pool.Status.Conditions, conditionGrowOnly), meta.FindStatusCondition(pool.Status.Conditions, conditionUnused)
	if only == nil || !strings.Contains(only.Message, "Herd h100") || !strings.Contains(only.Message, "spec.scaleDown.disabled") {
		t.Errorf("%+v", only)
	}
	if unused == nil || !strings.Contains(unused.Message, "n1/1, n1/2, n1/3, n1/4, n1/5 and 2 more") || strings.Contains(unused.Message, "other") {
		t.Errorf("%+v", unused)
	}
	pool.Spec.ScaleDown.Disabled = true
	setRemarks(pool, true, nil)
	if len(pool.Status.Conditions) != 0 {
		t.Errorf("conditions %+v", pool.Status.Conditions)
	}
}
