package observe

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// budgets are the PodDisruptionBudgets that have no room left, by namespace.
type budgets map[string][]labels.Selector

func newBudgets(pdbs []policyv1.PodDisruptionBudget) budgets {
	out := budgets{}
	for i := range pdbs {
		pdb := &pdbs[i]
		if pdb.Status.DisruptionsAllowed > 0 && pdb.Status.ObservedGeneration >= pdb.Generation {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			selector = labels.Everything() // a budget nobody can read protects all it might
		}
		out[pdb.Namespace] = append(out[pdb.Namespace], selector)
	}
	return out
}

// room reports whether no budget forbids moving p now.
func (b budgets) room(p *corev1.Pod) bool {
	for _, selector := range b[p.Namespace] {
		if selector.Matches(labels.Set(p.Labels)) {
			return false
		}
	}
	return true
}
