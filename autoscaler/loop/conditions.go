package loop

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// Conditions that are there only while there is something to say.
const (
	// conditionGrowOnly: no node of the pool can be given back, though it may.
	conditionGrowOnly = "GrowOnly"
	// conditionUnused: cards of the pool are held and have not been used for long.
	conditionUnused = "UnusedCards"
)

// unusedNamed bounds the cards that a condition names.
const unusedNamed = 5

// remark writes the conditions of a pool that are about nothing being done.
func remark(pool *v1alpha1.GPUNodePool, growOnly bool, unused []string) {
	if ref := pool.Spec.Provider.Scale; growOnly && ref != nil && !pool.Spec.ScaleDown.Disabled {
		setCondition(pool, conditionGrowOnly, metav1.ConditionTrue, "TargetUnnamed", fmt.Sprintf(
			"spec.provider.scale: %s %s has replicas and nothing that says which of its nodes goes, so nodes are added and none is given back; "+
				"name a resource of Cluster API or Karpenter, or set spec.scaleDown.disabled to say that this is wanted", ref.Kind, ref.Name))
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
	setCondition(pool, conditionUnused, metav1.ConditionTrue, string(plan.CardUnused), fmt.Sprintf(
		"held and not used for an hour or more: %s%s; ask who holds them, or have their GPUQuota say spec.reclaimIdle", strings.Join(named, ", "), more))
}

// unusedCards lists, by pool, the cards that are held for nothing.
func unusedCards(r Round) map[string][]string {
	pools := map[string]string{}
	for i := range r.Nodes {
		pools[r.Nodes[i].Name] = r.Nodes[i].Pool
	}
	out := map[string][]string{}
	for _, v := range r.Plan.Verdicts {
		if v.Kind != plan.KindCard || v.Reason != plan.CardUnused {
			continue
		}
		node := v.Subject[:max(0, strings.LastIndexByte(v.Subject, '/'))]
		if pool := pools[node]; pool != "" {
			out[pool] = append(out[pool], v.Subject)
		}
	}
	return out
}
