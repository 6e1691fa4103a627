package observe

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/plan"
)

// budgets are the PodDisruptionBudgets by namespace.
type budgets map[string][]budget

type budget struct {
	plan.Budget
	// selector is nil for one that nobody can read: it protects all it might.
	selector labels.Selector
}

func newBudgets(pdbs []policyv1.PodDisruptionBudget) budgets {
	out := budgets{}
	for i := range pdbs {
		pdb := &pdbs[i]
		b := budget{Budget: plan.Budget{Name: pdb.Namespace + "/" + pdb.Name}}
		// What was counted for another spec says nothing about this one.
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

// of returns the budgets that p counts towards.
func (b budgets) of(p *corev1.Pod) []plan.Budget {
	var out []plan.Budget
	for _, one := range b[p.Namespace] {
		if one.selector != nil && one.selector.Matches(labels.Set(p.Labels)) {
			out = append(out, one.Budget)
		}
	}
	return out
}

// room reports whether no budget may forbid moving p that nobody can read. What
// the others allow is theirs to say: see of.
func (b budgets) room(p *corev1.Pod) bool {
	for _, one := range b[p.Namespace] {
		if one.selector == nil {
			return false
		}
	}
	return true
}
