package partition

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// MaxUndoAttempts is the number of attempts after which a node is left cordoned until an
// administrator intervenes.
const MaxUndoAttempts = 5

// Times before the second attempt to go back: if the first has no answer, and if it has failed.
// Each further attempt waits twice as long.
const (
	retryUnanswered = 30 * time.Second
	retryFailed     = 10 * time.Second
)

// retryAfter returns how long an attempt to go back may take, at most patience. A mig-manager that
// hangs is retried early, and one that still waits for its clients, minutes each, gets more time:
// it reads the label again when it is done. A failed attempt may depend on a config that the
// kubelet has not mounted yet, or on a process that has not ended.
func retryAfter(state string, attempt int, patience time.Duration) time.Duration {
	first := retryUnanswered
	if state == contract.StateFailed {
		first = retryFailed
	}
	return min(patience, first<<min(max(attempt-1, 0), MaxUndoAttempts))
}

// elapsed returns the time since an attempt. An attempt in the future was recorded by a clock that
// was ahead; it counts as infinitely long ago, since otherwise no retry would happen until then.
func elapsed(since, now time.Time) time.Duration {
	d := now.Sub(since)
	if d < -clockSkew {
		return math.MaxInt64
	}
	return max(d, 0)
}

// clockSkew between replicas that is no jump.
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
	return m.patch(ctx, node, "marking", func(n *corev1.Node) {
		r.Cordoned = !n.Spec.Unschedulable
		n.Spec.Unschedulable = true
		setRecord(n, r.String())
	})
}

// Select signals the record's actuator to begin, and records that it did. For mig-manager the same
// write sets the node's label and removes mig-manager's answer, which is about an older config.
func (m *Manager) Select(ctx context.Context, node *corev1.Node, r contract.Record) error {
	r.Selected = true
	return m.patch(ctx, node, "starting operation "+r.ID+" on", func(n *corev1.Node) {
		setRecord(n, r.String())
		if r.Actuator != contract.ActuatorAgent {
			selectConfig(n, r.Config)
		}
	})
}

// Unmark ends an operation: it removes the record and, if gpuscale set it, the cordon.
func (m *Manager) Unmark(ctx context.Context, node *corev1.Node, r contract.Record) error {
	return m.patch(ctx, node, "unmarking", func(n *corev1.Node) {
		delete(n.Annotations, contract.RecordAnnotation)
		if r.Cordoned {
			n.Spec.Unschedulable = false
		}
	})
}

// Undo takes one step back: it selects the previous config or, once that is applied, ends the
// operation. done is true after the last step. mig-manager acts on a change of the label only, so
// an attempt that failed, or had no result within patience, is repeated under the config's other
// name. The node stays cordoned until it offers what it did before, or until it is uncordoned by
// hand after the last attempt.
func (m *Manager) Undo(ctx context.Context, node *corev1.Node, r contract.Record, now time.Time, patience time.Duration) (done bool, err error) {
	if r.Actuator == contract.ActuatorAgent {
		return m.undoByAgent(ctx, node, r, now, patience)
	}
	if r.Undo == nil && !r.IsSelected(node) {
		return true, m.Unmark(ctx, node, r) // it was never selected
	}
	selected := node.Labels[contract.ConfigLabel]
	if r.Undo != nil {
		// Another client that holds the label at a config of its own may have restored the layout too.
		at := selected == r.Previous || selected == otherName(r.Previous)
		state, since := node.Labels[contract.StateLabel], elapsed(r.Undo.Since, now)
		waited, again := since >= patience, since >= retryAfter(state, r.Undo.Attempts, patience)
		switch {
		case at && state == contract.StateSuccess && paused(node):
			return false, m.resume(ctx, node)
		case (at || waited) && state == contract.StateSuccess && Offers(node, r.Was):
			return true, m.Unmark(ctx, node, r)
		case at && state == contract.StateSuccess && !waited, !again:
			return false, nil
		case r.Undo.Attempts >= MaxUndoAttempts:
			return m.giveUp(ctx, node, r, fmt.Errorf("%s could not be restored in %d attempts, mig-manager state %q, label %s=%q, the node offers %v, not %v",
				r.Previous, r.Undo.Attempts, state, contract.ConfigLabel, selected, Advertised(node), r.Was))
		}
	}
	if r.Undo == nil && selected == r.Previous {
		// Another client has selected it already. Moving the label again would only provoke that one.
		r.Undo = &contract.Undo{Since: now, Attempts: 1}
		return false, m.patch(ctx, node, "going back on", func(n *corev1.Node) { setRecord(n, r.String()) })
	}
	to := r.Previous
	if selected == to {
		var err error
		if to, _, err = m.Again(ctx, to); err != nil {
			return false, err
		}
	}
	next := contract.Undo{Since: now, Attempts: 1}
	if r.Undo != nil {
		next.Attempts = r.Undo.Attempts + 1
	}
	r.Undo = &next
	return false, m.patch(ctx, node, "going back to "+to+" on", func(n *corev1.Node) {
		setRecord(n, r.String())
		selectConfig(n, to)
	})
}

// giveUp is the end of the attempts to go back. The node stays cordoned, out of supply, and each
// reconcile returns the error; a node that was uncordoned by hand since is left alone.
func (m *Manager) giveUp(ctx context.Context, node *corev1.Node, r contract.Record, why error) (done bool, err error) {
	if r.Cordoned && !node.Spec.Unschedulable {
		return true, m.Unmark(ctx, node, r)
	}
	return false, fmt.Errorf("node %s: %w: the node stays cordoned until it is uncordoned by hand, or annotation %s is removed", node.Name, why, contract.RecordAnnotation)
}

// deployPrefix begins the labels by which the GPU Operator deploys its components
// on a node. mig-manager sets them to deployPaused during a change.
const (
	deployPrefix = "nvidia.com/gpu.deploy."
	deployPaused = "paused-for-mig-change"
)

func paused(node *corev1.Node) bool {
	for key, value := range node.Labels {
		if strings.HasPrefix(key, deployPrefix) && value == deployPaused {
			return true
		}
	}
	return false
}

// resume deploys the components that mig-manager has paused. After the first success
// since its start, mig-manager v0.13.0 to v0.15.0 does so only if it has changed the
// GPUs (pkg/mig/reconfigure: NoRestartK8sDaemonsetsOnExit), so after a failed change
// the node would offer nothing until mig-manager's next success.
func (m *Manager) resume(ctx context.Context, node *corev1.Node) error {
	return m.patch(ctx, node, "resuming the device plugin on", func(n *corev1.Node) {
		for key, value := range n.Labels {
			if strings.HasPrefix(key, deployPrefix) && value == deployPaused {
				n.Labels[key] = "true"
			}
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

// Again publishes a config under its other name too, and returns that name and whether it was
// missing: mig-manager acts on a change of the label only, so a node that has selected the first
// name can select the other.
func (m *Manager) Again(ctx context.Context, name string) (other string, added bool, err error) {
	other = otherName(name)
	err = m.edit(ctx, func(c *Config) error {
		entries, ok := c.MIGConfigs[name]
		if !ok {
			return fmt.Errorf("config %s is not there", name)
		}
		_, had := c.MIGConfigs[other]
		added = !had
		c.MIGConfigs[other] = entries
		return nil
	})
	return other, added, err
}

func selectConfig(n *corev1.Node, name string) {
	metav1.SetMetaDataLabel(&n.ObjectMeta, contract.ConfigLabel, name)
	delete(n.Labels, contract.StateLabel)
}

func setRecord(n *corev1.Node, value string) {
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, contract.RecordAnnotation, value)
}

// patch writes change to node, unless the node has changed since it was read. node itself is
// updated.
func (m *Manager) patch(ctx context.Context, node *corev1.Node, what string, change func(*corev1.Node)) error {
	if err := PatchNode(ctx, m.client, node, change); err != nil {
		return fmt.Errorf("%s node %s: %w", what, node.Name, err)
	}
	return nil
}

// PatchNode writes a change of a node, unless the node has changed since it was read. node is then as
// written.
func PatchNode(ctx context.Context, c client.Client, node *corev1.Node, change func(*corev1.Node)) error {
	base := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	change(node)
	return c.Patch(ctx, node, base)
}
