package loop

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// Conditions that a pool has only while they are true.
const (
	// conditionGrowOnly: the spec allows scale-down, and the provider cannot do it.
	conditionGrowOnly = "GrowOnly"
	// conditionUnused: GPUs of the pool are allocated and have been idle for long.
	conditionUnused = "UnusedGPUs"
)

// unusedNamed bounds the GPUs that a condition names.
const unusedNamed = 5

// setRemarks sets conditionGrowOnly and conditionUnused.
func setRemarks(pool *v1alpha1.GPUNodePool, growOnly bool, unused []string) {
	if ref := pool.Spec.Provider.Scale; growOnly && ref != nil && !pool.Spec.ScaleDown.Disabled {
		setCondition(pool, conditionGrowOnly, metav1.ConditionTrue, "TargetUnnamed", fmt.Sprintf(
			"spec.provider.scale: %s %s has replicas but no way to select the node to remove, so the pool scales up and never down; "+
				"refer to a resource of Cluster API or Karpenter, or set spec.scaleDown.disabled", ref.Kind, ref.Name))
	} else {
		meta.RemoveStatusCondition(&pool.Status.Conditions, conditionGrowOnly)
	}
	if len(unused) == 0 {
		meta.RemoveStatusCondition(&pool.Status.Conditions, conditionUnused)
		return
	}
	named, more := unused, ""
	if len(named) > unusedNamed {
		named, more = named[:unusedNamed], fmt.Sprintf(" and %d more", len(unused)-unusedNamed)
	}
	setCondition(pool, conditionUnused, metav1.ConditionTrue, string(plan.GPUUnused), fmt.Sprintf(
		"allocated and idle for an hour or more: %s%s; ask the owners of the pods, or set spec.reclaimIdle of their GPUQuota", strings.Join(named, ", "), more))
}

// unusedGPUs lists, by pool, the GPUs that are allocated and idle.
func unusedGPUs(r Reconcile) map[string][]string {
	pools := map[string]string{}
	for i := range r.Nodes {
		pools[r.Nodes[i].Name] = r.Nodes[i].Pool
	}
	out := map[string][]string{}
	for _, v := range r.Plan.Verdicts {
		if v.Kind != plan.KindGPU || v.Reason != plan.GPUUnused {
			continue
		}
		node := v.Subject[:max(0, strings.LastIndexByte(v.Subject, '/'))]
		if pool := pools[node]; pool != "" {
			out[pool] = append(out[pool], v.Subject)
		}
	}
	return out
}
