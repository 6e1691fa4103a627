package observe

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// draining returns the drain under way on a node, nil for none. An unreadable drain has no
// deadline; it is overdue and ends.
func draining(n *corev1.Node) *plan.Draining {
	d, ok, err := v1alpha1.DrainOf(n)
	if !ok {
		return nil
	}
	out := plan.Draining{Reason: plan.Reason(d.Reason)}
	if out.Reason != plan.NodeSick && out.Reason != plan.NodeInterrupted && out.Reason != plan.NodeEmpty {
		out.Reason = plan.NodeUnderused // the least strict reason
	}
	if err == nil {
		out.Started, out.Deadline = d.Started, d.Deadline
	}
	return &out
}
