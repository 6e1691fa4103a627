package partition

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxUndoAttempts after which a node is left cordoned for a person.
const MaxUndoAttempts = 5

// Before the second attempt to go back: where the first has not been answered, and
// where it has failed. Each further one waits twice as long.
const (
	retrySilent = 30 * time.Second
	retryFailed = 10 * time.Second
)

// retryAfter is how long an attempt to go back is waited for, at most patience. A
// mig-manager that hangs again is woken soon, and one that still waits for its
// clients, minutes each, is not given up on: what the label says meanwhile is read
// when it is done. What has failed may need a config that kubelet has not carried
// over yet, or a process that has not ended.
func retryAfter(state string, attempt int, patience time.Duration) time.Duration {
	first := retrySilent
	if state == StateFailed {
		first = retryFailed
	}
	return min(patience, first<<min(max(attempt-1, 0), MaxUndoAttempts))
}

// elapsed since an attempt. One in the future was written by a clock that was ahead:
// it is as long ago as can be, or nobody would try again until that hour.
func elapsed(since, now time.Time) time.Duration {
	d := now.Sub(since)
	if d < -clockSkew {
		return math.MaxInt64
	}
	return max(d, 0)
}

// clockSkew between replicas that is no jump.
const clockSkew = time.Minute

// Manager drives mig-manager. Its methods take a node as just read from the
// API server and refuse when it has changed since.
type Manager struct {
	client    client.Client
	live      client.Reader
	configMap client.ObjectKey
}

// NewManager returns a Manager that keeps its configs in configMap. live must
// read from the API server, not from a cache.
func NewManager(c client.Client, live client.Reader, configMap client.ObjectKey) *Manager {
	return &Manager{client: c, live: live, configMap: configMap}
}

// Mark records an operation and cordons its node, in one write. r.Cordoned is
// set here.
func (m *Manager) Mark(ctx context.Context, node *corev1.Node, r Record) error {
	return m.patch(ctx, node, "marking", func(n *corev1.Node) {
		r.Cordoned = !n.Spec.Unschedulable
		n.Spec.Unschedulable = true
		setAnnotation(n, RecordAnnotation, r.String())
	})
}

// Select points the node at the record's config. mig-manager's old answer goes
// with the same write: it is not about this config.
func (m *Manager) Select(ctx context.Context, node *corev1.Node, r Record) error {
	if r.Actuator == ActuatorAgent {
		r.Selected = true
		return m.patch(ctx, node, "letting the agent begin on", func(n *corev1.Node) {
			setAnnotation(n, RecordAnnotation, r.String())
		})
	}
	return m.patch(ctx, node, "selecting "+r.Config+" on", func(n *corev1.Node) {
		selectConfig(n, r.Config)
	})
}

// Unmark ends an operation: the record goes and, where it was ours, the cordon.
func (m *Manager) Unmark(ctx context.Context, node *corev1.Node, r Record) error {
	return m.patch(ctx, node, "unmarking", func(n *corev1.Node) {
		delete(n.Annotations, RecordAnnotation)
		if r.Cordoned {
			n.Spec.Unschedulable = false
		}
	})
}

// Undo takes one step back: it selects the previous config, or, when that is in
// place, ends the operation. done is true after the last step. mig-manager acts
// on a change of the label only, so an attempt that failed, or that nothing came
// of within patience, is repeated under the config's other name.
func (m *Manager) Undo(ctx context.Context, node *corev1.Node, r Record, now time.Time, patience time.Duration) (done bool, err error) {
	if r.Actuator == ActuatorAgent {
		return m.undoByAgent(ctx, node, r, now, patience)
	}
	selected := node.Labels[ConfigLabel]
	if r.Undo == nil && selected != r.Config {
		return true, m.Unmark(ctx, node, r) // it never was selected
	}
	if r.Undo != nil {
		at := selected == r.Previous || selected == otherName(r.Previous)
		state, since := node.Labels[StateLabel], elapsed(r.Undo.Since, now)
		waited, again := since >= patience, since >= retryAfter(state, r.Undo.Attempts, patience)
		switch {
		// A card that fell sick meanwhile is never advertised again: what the
		// device plugin says is waited for, but not for ever.
		case at && state == StateSuccess && (waited || Offers(node, r.Was)):
			return true, m.Unmark(ctx, node, r)
		case at && (state == StateSuccess || !again):
			return false, nil
		case r.Undo.Attempts >= MaxUndoAttempts:
			return false, fmt.Errorf("node %s: %s could not be restored in %d attempts, mig-manager says %q: the node stays cordoned until annotation %s is removed",
				node.Name, r.Previous, r.Undo.Attempts, node.Labels[StateLabel], RecordAnnotation)
		}
	}
	to := r.Previous
	if selected == to {
		var err error
		if to, _, err = m.Again(ctx, to); err != nil {
			return false, err
		}
	}
	next := Undo{Since: now, Attempts: 1}
	if r.Undo != nil {
		next.Attempts = r.Undo.Attempts + 1
	}
	r.Undo = &next
	return false, m.patch(ctx, node, "going back to "+to+" on", func(n *corev1.Node) {
		setAnnotation(n, RecordAnnotation, r.String())
		selectConfig(n, to)
	})
}

// again ends the other name of a config.
const again = "-again"

// otherName is a second name for a config, to move a label away from and back
// to what it says.
func otherName(name string) string {
	return name[:min(len(name), 63-len(again))] + again
}

// FirstName returns the name of a config of ours that a node may have selected
// by its other name.
func FirstName(name string) string {
	if !strings.HasPrefix(name, namePrefix) {
		return name
	}
	return strings.TrimSuffix(name, again)
}

// Again publishes a config under its other name too, and returns that name and
// whether it was missing: mig-manager acts on a change of the label only, so that a
// node that has the first one selected can be given the other.
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
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[ConfigLabel] = name
	delete(n.Labels, StateLabel)
}

func setAnnotation(n *corev1.Node, key, value string) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = value
}

// patch writes what change does to node, unless the node has changed since it
// was read. node itself is updated.
func (m *Manager) patch(ctx context.Context, node *corev1.Node, what string, change func(*corev1.Node)) error {
	base := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	change(node)
	if err := m.client.Patch(ctx, node, base); err != nil {
		return fmt.Errorf("%s node %s: %w", what, node.Name, err)
	}
	return nil
}
