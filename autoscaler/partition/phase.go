package partition

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// Node labels of mig-manager's contract.
const (
	ConfigLabel = "nvidia.com/mig.config"
	StateLabel  = "nvidia.com/mig.config.state"
)

// Values of StateLabel.
const (
	StatePending   = "pending"
	StateSuccess   = "success"
	StateFailed    = "failed"
)

// Unreadable is the ID of an operation whose record cannot be parsed.
const Unreadable = "unreadable"

// OperationOf returns the operation under way on a node, nil for none. It reads the node alone: the
// record, mig-manager's state and what the device plugin advertises.
func OperationOf(node *corev1.Node) *plan.Operation {
	r, ok, err := RecordOf(node)
	if !ok {
		return nil
	}
	if err != nil {
		return &plan.Operation{ID: Unreadable, Phase: plan.PhaseFailed, Message: err.Error()}
	}
	op := &plan.Operation{
		ID: r.ID, GPU: r.GPU, Target: r.TargetLayout(),
		Started: r.Started, Deadline: r.Deadline,
	}
	if r.Actuator == ActuatorAgent {
		op.Phase, op.Message = agentPhase(node, r)
	} else {
		op.Phase, op.Message = phase(node, r)
	}
	return op
}

func phase(node *corev1.Node, r Record) (plan.Phase, string) {
	if r.Undo != nil {
		return plan.PhaseFailed, fmt.Sprintf("going back to %s, attempt %d, mig-manager state %q", r.Previous, r.Undo.Attempts, node.Labels[StateLabel])
	}
	switch selected := node.Labels[ConfigLabel]; {
	case selected == r.Config:
	case r.Selected:
		return plan.PhaseFailed, fmt.Sprintf("another client has set label %s to %q since gpuscale set it to %q: leave the label to one of them", ConfigLabel, selected, r.Config)
	default:
		return plan.PhasePending, "config " + r.Config + " is not selected yet"
	}
	switch state := node.Labels[StateLabel]; state {
	case StateFailed:
		return plan.PhaseFailed, "mig-manager could not apply " + r.Config
	case StateSuccess:
		if !Offers(node, r.Expect) {
			return plan.PhasePending, "the device plugin has not advertised the new layout yet"
		}
		return plan.PhaseSucceeded, ""
	default:
		return plan.PhasePending, fmt.Sprintf("mig-manager state %q", state)
	}
}

// Advertised returns the NVIDIA devices that a node advertises, by resource name, without zero
// amounts. Shared replicas are not devices.
func Advertised(node *corev1.Node) map[string]int64 {
	out := map[string]int64{}
	for name, q := range node.Status.Allocatable {
		r := string(name)
		if (r == GPUResource || strings.HasPrefix(r, "nvidia.com/mig-")) && !strings.HasSuffix(r, ".shared") && q.Value() > 0 {
			out[r] = q.Value()
		}
	}
	return out
}
