package partition

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/plan"
)

// Unreadable is the ID of an operation whose record cannot be parsed.
const Unreadable = "unreadable"

// OperationOf returns the operation under way on a node, nil for none. It reads the node alone: the
// record, mig-manager's state and what the device plugin advertises.
func OperationOf(node *corev1.Node) *plan.Operation {
	r, ok, err := contract.RecordOf(node)
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
	if r.Actuator == contract.ActuatorAgent {
		op.Phase, op.Message = agentPhase(node, r)
	} else {
		op.Phase, op.Message = phase(node, r)
	}
	return op
}

func phase(node *corev1.Node, r contract.Record) (plan.Phase, string) {
	if r.Undo != nil {
		return plan.PhaseFailed, fmt.Sprintf("going back to %s, attempt %d, mig-manager state %q", r.Previous, r.Undo.Attempts, node.Labels[contract.StateLabel])
	}
	switch selected := node.Labels[contract.ConfigLabel]; {
	case selected == r.Config:
	case r.Selected:
		return plan.PhaseFailed, fmt.Sprintf("another client has set label %s to %q since gpuscale set it to %q: leave the label to one of them", contract.ConfigLabel, selected, r.Config)
	default:
		return plan.PhasePending, "config " + r.Config + " is not selected yet"
	}
	switch state := node.Labels[contract.StateLabel]; state {
	case contract.StateFailed:
		return plan.PhaseFailed, "mig-manager could not apply " + r.Config
	case contract.StateSuccess:
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

// agentPhase returns the agent's progress with r.
func agentPhase(node *corev1.Node, r contract.Record) (plan.Phase, string) {
	a, ok := contract.AnswerTo(node, r)
	switch {
	case r.Undo != nil && ok:
		return plan.PhaseFailed, fmt.Sprintf("going back, attempt %d, agent state %s: %s", r.Undo.Attempts, a.State, cmp.Or(a.Message, a.Step))
	case r.Undo != nil:
		return plan.PhaseFailed, fmt.Sprintf("going back, attempt %d, the agent has not answered", r.Undo.Attempts)
	case !r.Selected:
		return plan.PhasePending, "the agent has not been signalled to begin"
	case !ok:
		return plan.PhasePending, "the node's agent has not answered"
	case a.State == contract.AgentFailed || a.State == contract.AgentRestored || a.Back:
		return plan.PhaseFailed, "the agent could not repartition the GPU: " + a.Message
	case a.State == contract.AgentWorking:
		return plan.PhasePending, "the agent is at: " + a.Step
	case !Offers(node, r.Expect):
		return plan.PhasePending, "the device plugin has not advertised the new layout yet"
	}
	return plan.PhaseSucceeded, ""
}

// undoByAgent asks the node's agent to restore the GPU, and ends the operation once the agent has
// confirmed it. The agent may be in the middle of a change, so nothing ends before it answers, even
// if it may not have seen the operation.
func (m *Manager) undoByAgent(ctx context.Context, node *corev1.Node, r contract.Record, now time.Time, patience time.Duration) (done bool, err error) {
	a, ok := contract.AnswerTo(node, r)
	since := r.Started
	if r.Undo != nil {
		since = r.Undo.Since
	}
	waited := elapsed(since, now) >= patience
	failed := ok && a.State == contract.AgentFailed && elapsed(since, now) >= retryAfter(contract.StateFailed, r.Attempt(), patience)
	switch {
	case r.Undo == nil && !r.Selected:
		return true, m.Unmark(ctx, node, r) // it was never begun
	case ok && a.State == contract.AgentRestored && Offers(node, r.Was):
		return true, m.Unmark(ctx, node, r)
	case r.Undo != nil && !waited && !failed:
		return false, nil
	case r.Attempt() >= MaxUndoAttempts:
		return m.giveUp(ctx, node, r, fmt.Errorf("GPU %d could not be restored to %s in %d attempts, agent state %q, message %q",
			r.GPU, r.Before, r.Attempt(), a.State, a.Message))
	}
	r.Undo = &contract.Undo{Since: now, Attempts: r.Attempt() + 1}
	return false, m.patch(ctx, node, "having the agent go back on", func(n *corev1.Node) {
		setRecord(n, r.String())
	})
}
