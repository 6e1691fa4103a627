package act

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// minRollbackTimeout bounds one rollback attempt from below, whatever the operation's
// own timeout.
const minRollbackTimeout = 30 * time.Second

// rollback does one step of a rollback. The planner repeats it each reconcile until the
// operation is gone from the node.
func (a *Actor) rollback(ctx context.Context, r *reconcile, action plan.Action) error {
	return a.onNode(ctx, action.Node, func(node *corev1.Node) error {
		record, ok, err := partition.RecordOf(node)
		switch {
		case err != nil:
			return fmt.Errorf("node %s: %w; remove it by hand", node.Name, err)
		case !ok:
			return nil // already undone
		case record.ID != action.Operation:
			return refuse("node %s has operation %s under way, not %s", node.Name, record.ID, action.Operation)
		}
		timeout := max(minRollbackTimeout, record.Deadline.Sub(record.Started))
		done, err := a.o.Partition.Undo(ctx, node, record, r.now, timeout)
		if err == nil && !done {
			return fmt.Errorf("%w for mig-manager to restore %s", errWaiting, record.Previous)
		}
		return err
	})
}
