package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// budgets are the PodDisruptionBudgets by namespace.
type budgets map[string][]budget

type budget struct {
	plan.Budget
	// selector is nil if it is invalid: the budget may then protect any pod of its namespace.
	selector labels.Selector
}

func newBudgets(pdbs []policyv1.PodDisruptionBudget) budgets {
	out := budgets{}
	for i := range pdbs {
		pdb := &pdbs[i]
		b := budget{Budget: plan.Budget{Name: pdb.Namespace + "/" + pdb.Name}}
		// A status of another generation does not count.
		if pdb.Status.ObservedGeneration >= pdb.Generation {
			b.Allowed = int(max(0, pdb.Status.DisruptionsAllowed))
		}
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil {
			b.selector = selector
		}
		out[pdb.Namespace] = append(out[pdb.Namespace], b)
	}
	return out
}

// of returns the budgets that select p. readable is false where one with an invalid selector may
// protect p too, or where there are too many.
func (b budgets) of(p *corev1.Pod) (out []plan.Budget, readable bool) {
	if len(b[p.Namespace]) > maxBudgets {
		return nil, false
	}
	readable = true
	for _, one := range b[p.Namespace] {
		switch {
		case one.selector == nil:
			readable = false
		case one.selector.Matches(labels.Set(p.Labels)):
			out = append(out, one.Budget)
		}
	}
	return out, readable
}
