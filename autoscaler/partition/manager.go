package partition

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/plan"
)

// MaxUndoAttempts is the number of attempts after which a node is left cordoned until an
// administrator intervenes.
const MaxUndoAttempts = 5

// Times before the second attempt to go back: after a first attempt without an answer, and after one that has
// failed. Each further attempt waits twice as long.
const (
	retryUnanswered = 30 * time.Second
	retryFailed     = 10 * time.Second
)

// retryAfter returns how long an attempt to go back may take, at most patience. A mig-manager that hangs is retried
// early. One that waits for its clients, minutes for each, gets more time: it reads the label again when it is done. A
// failed attempt may depend on a config that the kubelet has not mounted yet, or on a process that has not ended.
func retryAfter(state string, attempt int, patience time.Duration) time.Duration {
	first := retryUnanswered
	if state == contract.StateFailed {
		first = retryFailed
	}
	return min(patience, first<<min(max(attempt-1, 0), MaxUndoAttempts))
}

// elapsed returns the time since an attempt. An attempt in the future was recorded by a clock that was ahead. It counts
// as infinitely long ago: else there would be no retry until its time.
func elapsed(since, now time.Time) time.Duration {
	d := now.Sub(since)
	if d < -clockSkew {
		return math.MaxInt64
	}
	return max(d, 0)
}

// clockSkew is the difference between the clocks of two replicas that is tolerated.
const clockSkew = time.Minute

// Manager drives mig-manager. Its methods take a node as just read from the API server, and fail if
// it has changed since.
type Manager struct {
	client    client.Client
	live      client.Reader
	configMap client.ObjectKey
}

// NewManager returns a Manager that keeps its configs in configMap. live must read from the API
// server, not from a cache.
func NewManager(c client.Client, live client.Reader, configMap client.ObjectKey) *Manager {
	return &Manager{client: c, live: live, configMap: configMap}
}

// Mark records an operation and cordons its node, in one write. r.Cordoned is set here.
func (m *Manager) Mark(ctx context.Context, node *corev1.Node, r contract.Record) error {
	return PatchNode(ctx, m.client, node, "marking", func(n *corev1.Node) {
		r.Cordoned = !n.Spec.Unschedulable
		n.Spec.Unschedulable = true
		setRecord(n, r.String())
	})
}

// Select signals the record's actuator to begin, and records that it did. For mig-manager the same
// write sets the node's label and removes mig-manager's answer, which is about an older config.
func (m *Manager) Select(ctx context.Context, node *corev1.Node, r contract.Record) error {
	r.Selected = true
	return PatchNode(ctx, m.client, node, "starting operation "+r.ID+" on", func(n *corev1.Node) {
		setRecord(n, r.String())
		if r.Actuator != contract.ActuatorAgent {
			selectConfig(n, r.Config)
		}
	})
}

// Unmark ends an operation: it removes the record and, if gpuscale set it, the cordon.
func (m *Manager) Unmark(ctx context.Context, node *corev1.Node, r contract.Record) error {
	return PatchNode(ctx, m.client, node, "unmarking", func(n *corev1.Node) {
		delete(n.Annotations, contract.RecordAnnotation)
		if r.Cordoned {
			contract.Uncordon(n)
		}
	})
}

// Undo takes one step back: it has the actuator restore the former layout or, once the node offers it again, ends the
// operation. done is true after the last step. An attempt that has failed, or had no result within patience, is
// repeated. The node stays cordoned until it offers what it did before, or until it is uncordoned by hand after the last
// attempt.
func (m *Manager) Undo(ctx context.Context, node *corev1.Node, r contract.Record, now time.Time, patience time.Duration) (done bool, err error) {
	if r.Undo == nil && !r.Selected {
		return true, m.Unmark(ctx, node, r) // it was never begun
	}
	began, progressOf := r.Started, managerProgress
	if r.Undo != nil {
		began = r.Undo.Since
	}
	if r.Actuator == contract.ActuatorAgent {
		progressOf = agentProgress
	}
	switch p := progressOf(node, r, elapsed(began, now), patience); {
	case p.restored && len(paused(node)) > 0:
		return false, m.resume(ctx, node)
	case p.restored && SameOffer(Advertised(node), r.Was):
		return true, m.Unmark(ctx, node, r)
	case r.Undo != nil && !p.over:
		return false, nil
	case r.Attempt() >= MaxUndoAttempts:
		return m.giveUp(ctx, node, r, p.words)
	}
	to := ""
	if r.Actuator != contract.ActuatorAgent {
		if to, err = m.selects(ctx, node, r, now); err != nil {
			return false, err
		}
	}
	r.Undo = &contract.Undo{Since: now, Attempts: r.Attempt() + 1}
	return false, PatchNode(ctx, m.client, node, "rolling back on", func(n *corev1.Node) {
		setRecord(n, r.String())
		if to != "" {
			selectConfig(n, to)
		}
	})
}

// progress of an actuator that restores a layout.
type progress struct {
	restored bool   // by its own account
	over     bool   // it has failed, or has had no result for too long
	words    string // for errors
}

// agentProgress: the agent may be in the middle of a change, so nothing ends before it answers, even where it may not
// have seen the operation.
func agentProgress(node *corev1.Node, r contract.Record, since, patience time.Duration) progress {
	a, ok := contract.AnswerTo(node, r)
	failed := ok && a.State == contract.AgentFailed && since >= retryAfter(contract.StateFailed, r.Attempt(), patience)
	return progress{ok && a.State == contract.AgentRestored, failed || since >= patience, fmt.Sprintf("agent state %q, message %q", a.State, a.Message)}
}

// managerProgress: another client that keeps a config of its own in the label may also have restored the layout.
func managerProgress(node *corev1.Node, r contract.Record, since, patience time.Duration) progress {
	state, selected := node.Labels[contract.StateLabel], node.Labels[contract.ConfigLabel]
	at := selected == r.Previous || selected == otherName(r.Previous)
	applied, waited := state == contract.StateSuccess, since >= patience
	return progress{
		restored: r.Undo != nil && applied && (at || waited),
		over:     since >= retryAfter(state, r.Attempt(), patience) && (waited || !at || !applied),
		words:    fmt.Sprintf("mig-manager state %q, label %s=%q", state, contract.ConfigLabel, selected),
	}
}

// selects returns the config that a node is to select to go back, empty where another client has selected it already.
// mig-manager acts on a change of the label only, so a further attempt has the config's other name.
func (m *Manager) selects(ctx context.Context, node *corev1.Node, r contract.Record, now time.Time) (to string, err error) {
	if node.Labels[contract.ConfigLabel] != r.Previous {
		return r.Previous, nil
	}
	if r.Undo != nil {
		to, _, err = m.Again(ctx, now, r.Previous)
	}
	return to, err
}

// giveUp ends the attempts to go back. The node stays cordoned, and each reconcile returns the error. If the node was
// uncordoned by hand since, the operation ends.
func (m *Manager) giveUp(ctx context.Context, node *corev1.Node, r contract.Record, words string) (done bool, err error) {
	if r.Cordoned && !node.Spec.Unschedulable {
		return true, m.Unmark(ctx, node, r)
	}
	return false, fmt.Errorf("node %s: GPU %d could not be restored to %s in %d attempts, %s, the node offers %s, not %s: the node stays cordoned until it is uncordoned by hand, or annotation %s is removed",
		node.Name, r.GPU, cmp.Or(r.Previous, r.Before), r.Attempt(), words, OfferText(Advertised(node)), OfferText(r.Was), contract.RecordAnnotation)
}

// deployPrefix is the prefix of the labels by which the GPU Operator deploys its components
// on a node. mig-manager sets them to deployPaused during a change.
const (
	deployPrefix = "nvidia.com/gpu.deploy."
	deployPaused = "paused-for-mig-change"
)

// paused returns the keys of the labels of paused components.
func paused(node *corev1.Node) (keys []string) {
	for key, value := range node.Labels {
		if strings.HasPrefix(key, deployPrefix) && value == deployPaused {
			keys = append(keys, key)
		}
	}
	return keys
}

// resume deploys the components that mig-manager has paused. mig-manager v0.13.0 to v0.15.0 does so by itself, but
// after its first success since its start only if it has changed the GPUs (pkg/mig/reconfigure:
// NoRestartK8sDaemonsetsOnExit). So after a failed change the node would offer nothing until mig-manager's next
// success.
func (m *Manager) resume(ctx context.Context, node *corev1.Node) error {
	return PatchNode(ctx, m.client, node, "resuming the device plugin on", func(n *corev1.Node) {
		for _, key := range paused(n) {
			n.Labels[key] = "true"
		}
	})
}

// again is the suffix of a config's other name.
const again = "-again"

// otherName is a second name for a config: mig-manager acts only when the label changes.
func otherName(name string) string {
	return name[:min(len(name), 63-len(again))] + again
}

// FirstName returns the name of a gpuscale config, given that or the other name.
func FirstName(name string) string {
	if !strings.HasPrefix(name, namePrefix) {
		return name
	}
	return strings.TrimSuffix(name, again)
}

// Again publishes a config under its other name too, and returns that name and when it was added, as
// Publish does: mig-manager acts on a change of the label only, so a node that has selected the first
// name can select the other.
func (m *Manager) Again(ctx context.Context, now time.Time, name string) (other string, at time.Time, err error) {
	other = otherName(name)
	added, err := m.edit(ctx, now, func(c *Config) error {
		entries, ok := c.MIGConfigs[name]
		if !ok {
			return fmt.Errorf("config %s does not exist", name)
		}
		c.MIGConfigs[other] = entries
		return nil
	})
	return other, added[other], err
}

func selectConfig(n *corev1.Node, name string) {
	metav1.SetMetaDataLabel(&n.ObjectMeta, contract.ConfigLabel, name)
	delete(n.Labels, contract.StateLabel)
}

func setRecord(n *corev1.Node, value string) {
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, contract.RecordAnnotation, value)
}

// PatchNode writes a change of a node, unless the node has changed since it was read. Afterwards node is as written.
// what is the beginning of the error: "marking".
func PatchNode(ctx context.Context, c client.Client, node *corev1.Node, what string, change func(*corev1.Node)) error {
	base := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	change(node)
	if err := c.Patch(ctx, node, base); err != nil {
		return fmt.Errorf("%s node %s: %w", what, node.Name, err)
	}
	return nil
}

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
		return plan.PhaseFailed, fmt.Sprintf("rolling back to %s, attempt %d, mig-manager state %q", r.Previous, r.Undo.Attempts, node.Labels[contract.StateLabel])
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
		if !SameOffer(Advertised(node), r.Expect) {
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
		return plan.PhaseFailed, fmt.Sprintf("rolling back, attempt %d, agent state %s: %s", r.Undo.Attempts, a.State, cmp.Or(a.Message, a.Step))
	case r.Undo != nil:
		return plan.PhaseFailed, fmt.Sprintf("rolling back, attempt %d, the agent has not answered", r.Undo.Attempts)
	case !r.Selected:
		return plan.PhasePending, "the agent has not been signalled to begin"
	case !ok:
		return plan.PhasePending, "the node's agent has not answered"
	case a.State == contract.AgentFailed || a.State == contract.AgentRestored || a.Back:
		return plan.PhaseFailed, "the agent could not repartition the GPU: " + a.Message
	case a.State == contract.AgentWorking:
		return plan.PhasePending, "step of the agent: " + a.Step
	case !SameOffer(Advertised(node), r.Expect):
		return plan.PhasePending, "the device plugin has not advertised the new layout yet"
	}
	return plan.PhaseSucceeded, ""
}
