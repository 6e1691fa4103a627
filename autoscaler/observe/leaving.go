package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// addMoves records for each pod whether it is terminating, else when and within which budgets it
// may be evicted. The first pods are those of objects; the ones after them are still to be created.
func addMoves(pods []plan.Pod, objects []*corev1.Pod, pdbs []policyv1.PodDisruptionBudget, now time.Time, over exceeded) {
	budgets := newBudgets(pdbs)
	for i, p := range objects {
		out := &pods[i]
		if p.DeletionTimestamp != nil {
			// The deletion timestamp is the end of the grace period; until then the pod's devices
			// stay allocated.
			out.Leaving, out.LeavesAt = true, p.DeletionTimestamp.Time
		}
		var err error
		out.EvictFrom, err = v1alpha1.EvictFrom(p, now)
		var readable bool
		out.Budgets, readable = budgets.of(p)
		if len(budgets[p.Namespace]) > maxBudgets {
			over.add(p.Namespace, LimitBudgets, 1)
		}
		// The eviction API refuses a pod that two budgets protect.
		out.Evictable = out.Evictable && err == nil && readable && len(out.Budgets) < 2
	}
}
