package observe

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/kube"
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
		if len(budgets[p.Namespace]) > maxBudgets {
			out.Evictable, out.Pinned = false, fmt.Sprintf("its namespace has more than %d PodDisruptionBudgets", maxBudgets)
			over.add(p.Namespace, LimitBudgets, 1)
			continue
		}
		out.Budgets = budgets.of(p)
		switch {
		case !out.Evictable:
		case err != nil:
			out.Evictable, out.Pinned = false, err.Error()
		case len(out.Budgets) > 1:
			out.Evictable, out.Pinned = false, fmt.Sprintf("the eviction API refuses it, since %d PodDisruptionBudgets protect it", len(out.Budgets))
		}
	}
}

// budgets are the PodDisruptionBudgets by namespace.
type budgets map[string][]budget

type budget struct {
	plan.Budget
	selector labels.Selector
	// readyOnly: the budget does not protect pods that are not ready.
	readyOnly bool
}

func newBudgets(pdbs []policyv1.PodDisruptionBudget) budgets {
	out := budgets{}
	for i := range pdbs {
		pdb := &pdbs[i]
		b := budget{Budget: plan.Budget{Name: pdb.Namespace + "/" + pdb.Name}}
		var err error
		if b.selector, err = metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err != nil { // it may protect any pod of its namespace
			b.selector = labels.Everything()
		} else {
			b.readyOnly = ptr.Deref(pdb.Spec.UnhealthyPodEvictionPolicy, "") == policyv1.AlwaysAllow
			if st := &pdb.Status; st.ObservedGeneration >= pdb.Generation { // a status of another generation does not count
				b.Allowed = int(max(0, st.DisruptionsAllowed))
				b.readyOnly = b.readyOnly || st.CurrentHealthy >= st.DesiredHealthy && st.DesiredHealthy > 0
			}
		}
		out[pdb.Namespace] = append(out[pdb.Namespace], b)
	}
	return out
}

// of returns the budgets that the eviction API checks for p; none for a bound pod that has not started.
func (b budgets) of(p *corev1.Pod) (out []plan.Budget) {
	if p.Status.Phase == corev1.PodPending && p.Spec.NodeName != "" {
		return nil
	}
	unready := !kube.PodReady(p) // and no budget protects such a pod
	for _, one := range b[p.Namespace] {
		if one.selector.Matches(labels.Set(p.Labels)) {
			out, unready = append(out, one.Budget), unready && one.readyOnly
		}
	}
	if unready && len(out) == 1 { // with two, the API refuses
		return nil
	}
	return out
}
