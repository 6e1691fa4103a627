package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// addMoves says of each pod whether it is on its way out, and otherwise when and
// within which budgets it may be moved. The first of the pods are made of the objects;
// those after them are still to be made.
func addMoves(pods []plan.Pod, objects []*corev1.Pod, pdbs []policyv1.PodDisruptionBudget) {
	budgets := newBudgets(pdbs)
	for i, p := range objects {
		leaving(p, &pods[i])
		movable(p, &pods[i])
		pods[i].Budgets = budgets.of(p)
		// The eviction API refuses a pod that two budgets protect.
		pods[i].Evictable = pods[i].Evictable && len(pods[i].Budgets) < 2
	}
}

// leaving reads what is known of a pod that was asked to go: the API server
// writes down when its grace ends. It holds its devices until it is gone.
func leaving(p *corev1.Pod, out *plan.Pod) {
	if p.DeletionTimestamp == nil {
		return
	}
	out.Leaving, out.LeavesAt = true, p.DeletionTimestamp.Time
}

// movable reads from when on a pod may be moved. One that says it so that nobody
// can read it may not.
func movable(p *corev1.Pod, out *plan.Pod) {
	from, err := v1alpha1.EvictFrom(p)
	if err != nil {
		out.Evictable = false
		return
	}
	out.EvictFrom = from
}

// interruptedAfter is how long after its notice EC2 takes a spot instance.
const interruptedAfter = 2 * time.Minute

// takenAt is when a provider takes a node that it gave notice of, zero where it
// only might.
func takenAt(l pools.Leaving) time.Time {
	if l.Kind != pools.Interruption {
		return time.Time{}
	}
	return l.At.Add(interruptedAfter)
}

// leavesAt is when the node's provider takes it, zero where it gave no notice.
func (o *Observer) leavesAt(n *corev1.Node) time.Time {
	if n.Spec.ProviderID == "" {
		return time.Time{}
	}
	return o.said[n.Labels[v1alpha1.NodePoolLabel]].leaving[pools.LastPart(n.Spec.ProviderID)]
}
