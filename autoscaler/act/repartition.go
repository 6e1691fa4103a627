package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/plan"
)

// settleDelay is the time from the cordon to mig-manager's order. The scheduler may have chosen the
// node for a pod before it observed the cordon; the binding follows within that time. An agent
// needs none: it reads the kubelet's allocations right before it destroys an instance.
const settleDelay = plan.RemoveDelay

// repartition starts an operation: it publishes the configs, and writes the record and the cordon at once. resume does
// the next step.
func (a *Actor) repartition(ctx context.Context, r *reconcile, action plan.Action) error {
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		record, err := a.begin(ctx, r, node, action)
		if err != nil {
			return err
		}
		return a.o.Partition.Mark(ctx, node, record)
	})
}

// begin checks the node against the snapshot, publishes the configs and returns the
// record to write to the node.
func (a *Actor) begin(ctx context.Context, r *reconcile, node *corev1.Node, action plan.Action) (contract.Record, error) {
	if _, underWay, _ := contract.RecordOf(node); underWay {
		return contract.Record{}, refuse("node %s has an operation under way", node.Name)
	}
	if _, draining, _ := v1alpha1.DrainOf(node); draining {
		return contract.Record{}, refuse("node %s is being drained", node.Name)
	}
	if contract.Upgrading(node) {
		return contract.Record{}, refuse("a driver of node %s is being upgraded", node.Name)
	}
	byAgent := r.pools[action.Pool].MIG.KeepsBusy
	var names partition.Names // an agent knows its driver's names
	if !byAgent {
		names = partition.NamesOn(node)
	}
	before, err := names.LayoutOf(r.tables, r.nodes[action.Node].GPUs)
	if err != nil {
		return contract.Record{}, refuse("node %s: %v", node.Name, err)
	}
	after, err := before.With(r.tables, names, action.GPU, action.Model, action.Target)
	if err != nil {
		return contract.Record{}, refuse("node %s: %v", node.Name, err)
	}
	if offered, want := partition.Advertised(node), before.Resources(); !partition.SameOffer(offered, want) {
		return contract.Record{}, refuse("node %s advertises %s, not %s as in the snapshot", node.Name, partition.OfferText(offered), partition.OfferText(want))
	}
	record := contract.Record{
		ID: action.Operation, GPU: action.GPU, Model: action.Model,
		Target: action.Target.String(), Before: action.Before.String(), Expect: after.Resources(), Was: before.Resources(),
		Pods: r.podsOn(node.Name), Started: r.now, Deadline: action.Deadline, LabelAfter: r.now,
	}
	if byAgent {
		record.Actuator = contract.ActuatorAgent
		for _, c := range r.nodes[action.Node].GPUs {
			if c.Index == action.GPU {
				record.UUID = c.UUID
			}
		}
		// Without an agent that is ready the node would be cordoned to no effect.
		if err := contract.AgentReady(node, record.UUID, r.now); err != nil {
			return contract.Record{}, refuse("node %s: %v", node.Name, err)
		}
		return record, nil
	}
	err = a.configs(ctx, r.now, node, before, after, &record)
	return record, err
}

// configs publishes the configs of a record for mig-manager, the one to select and the one to roll back to. Both are
// chosen by their content: the node's label may name a config that is deleted or was never applied.
func (a *Actor) configs(ctx context.Context, now time.Time, node *corev1.Node, before, after partition.NodeLayout, record *contract.Record) error {
	if err := contract.Synced(node); err != nil {
		return err
	}
	published, err := a.o.Partition.Publish(ctx, now, before, after)
	if err != nil {
		return err
	}
	selected := node.Labels[contract.ConfigLabel]
	record.Config, record.Previous = after.Name(), partition.FirstName(selected)
	gives, err := a.o.Partition.Gives(ctx, record.Previous, before)
	if err != nil {
		return err
	}
	if !gives {
		record.Previous = before.Name()
	}
	if selected == record.Config {
		var again time.Time
		if record.Config, again, err = a.o.Partition.Again(ctx, now, record.Config); err != nil {
			return err
		}
		published = slices.MaxFunc([]time.Time{published, again}, time.Time.Compare)
	}
	// The config may have been published earlier, for another node or by an attempt whose record was not written. Its
	// time may be in the future, from a clock that was ahead.
	published = slices.MinFunc([]time.Time{published, now}, time.Time.Compare)
	record.LabelAfter = slices.MaxFunc([]time.Time{now.Add(settleDelay), published.Add(a.o.ConfigDelay)}, time.Time.Compare)
	return nil
}

// minRollbackTimeout bounds one rollback attempt from below, whatever the operation's
// own timeout.
const minRollbackTimeout = 30 * time.Second

// underWay returns the record of the action's operation; false where the node has none.
func underWay(node *corev1.Node, action plan.Action) (contract.Record, bool, error) {
	record, ok, err := contract.RecordOf(node)
	if err != nil {
		return record, false, fmt.Errorf("node %s: %w; remove it by hand", node.Name, err)
	}
	if ok && record.ID != action.Operation {
		return record, false, refuse("node %s has operation %s under way, not %s", node.Name, record.ID, action.Operation)
	}
	return record, ok, nil
}

// rollback does one step of a rollback. The planner repeats it each reconcile until the
// operation is gone from the node.
func (a *Actor) rollback(ctx context.Context, r *reconcile, action plan.Action) error {
	return a.onNode(ctx, action.Node, func(node *corev1.Node) error {
		record, ok, err := underWay(node, action)
		if err != nil || !ok { // already undone
			return err
		}
		timeout := max(minRollbackTimeout, record.Deadline.Sub(record.Started))
		done, err := a.o.Partition.Undo(ctx, node, record, r.now, timeout)
		if err == nil && !done {
			return fmt.Errorf("%w for mig-manager to restore %s", errWaiting, record.Previous)
		}
		return err
	})
}

// uncordon ends a repartition that succeeded, or lifts a cordon of ours whose
// operation has ended. A cordon without our annotation stays.
func (a *Actor) uncordon(ctx context.Context, action plan.Action) error {
	return a.onNode(ctx, action.Node, func(node *corev1.Node) error {
		record, ok, err := underWay(node, action)
		if err != nil {
			return err
		}
		if !ok { // an action that names no operation ends a drain
			return a.liftCordon(ctx, node, cmp.Or(action.Operation, drainReason))
		}
		if op := partition.OperationOf(node); op.Phase != plan.PhaseSucceeded {
			return refuse("operation %s on node %s is %s: %s", record.ID, node.Name, op.Phase, op.Message)
		}
		return a.o.Partition.Unmark(ctx, node, record)
	})
}

// liftCordon lifts a cordon of ours with this reason and ends the node's drain. A
// cordon without our annotation stays.
func (a *Actor) liftCordon(ctx context.Context, node *corev1.Node, why string) error {
	by := node.Annotations[v1alpha1.CordonAnnotation]
	_, draining := node.Annotations[v1alpha1.DrainAnnotation]
	switch {
	case by == "" && !draining:
		return nil // already lifted
	case by != "" && by != why:
		return refuse("node %s is cordoned by %s, not %s", node.Name, by, why)
	}
	return partition.PatchNode(ctx, a.o.Client, node, "patching", func(n *corev1.Node) {
		delete(n.Annotations, v1alpha1.DrainAnnotation)
		delete(n.Annotations, v1alpha1.CordonAnnotation)
		if by != "" {
			contract.Uncordon(n)
		}
	})
}

// resume signals the actuators of the recorded operations that are due: after ConfigDelay, or after a restart. It
// decides nothing; past its deadline an operation is undone by the planner.
func (a *Actor) resume(ctx context.Context, s plan.Snapshot) error {
	var errs []error
	for i := range s.Nodes {
		if s.Nodes[i].Operation == nil {
			continue
		}
		var node corev1.Node
		err := a.o.Client.Get(ctx, client.ObjectKey{Name: s.Nodes[i].Name}, &node)
		if err == nil && due(&node, s.Now) { // the cache may be behind
			err = a.onNode(ctx, node.Name, func(node *corev1.Node) error { return a.signal(ctx, s.Now, node) })
		}
		if outcome(err, false) == Failed {
			errs = append(errs, err)
		}
	}
	if !a.o.Policy.Freeze && s.Now.Sub(a.tidied) >= tidyEvery {
		a.tidied = s.Now
		errs = append(errs, a.tidy(ctx, s.Now))
	}
	return errors.Join(errs...)
}

// due reports whether the actuator of a node's operation is to be signalled now.
func due(node *corev1.Node, now time.Time) bool {
	record, ok, err := contract.RecordOf(node)
	return ok && err == nil && record.Undo == nil && !record.Selected && !now.Before(record.LabelAfter) && !now.After(record.Deadline)
}

// signal lets the actuator of a node's operation begin, or ends the operation: the GPU is unchanged until then.
func (a *Actor) signal(ctx context.Context, now time.Time, node *corev1.Node) error {
	if !due(node, now) {
		return nil
	}
	record, _, _ := contract.RecordOf(node)
	may, err := a.mayBegin(ctx, node, record)
	if err != nil {
		return err
	}
	if may {
		return a.o.Partition.Select(ctx, node, record)
	}
	return a.o.Partition.Unmark(ctx, node, record)
}

// mayBegin reports whether a recorded operation may change the GPU. It may not under a freeze of the policy or of the
// pool, once others have uncordoned the node, or if a pod was bound to it before the cordon took effect: the GPU may be
// allocated to that pod.
func (a *Actor) mayBegin(ctx context.Context, node *corev1.Node, record contract.Record) (bool, error) {
	pool, err := a.pool(ctx, node.Labels[v1alpha1.NodePoolLabel])
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if a.o.Policy.Freeze || pool != nil && pool.Spec.Freeze || record.Cordoned && !node.Spec.Unschedulable {
		return false, nil
	}
	pods, err := a.gpuPods(ctx, node.Name)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(pods, func(pod string) bool { return !slices.Contains(record.Pods, pod) }), nil
}

// tidyEvery is the interval between removals of unused configs.
const tidyEvery = 10 * time.Minute

func (a *Actor) tidy(ctx context.Context, now time.Time) error {
	var nodes corev1.NodeList
	if err := a.o.Live.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	used := map[string]bool{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		used[node.Labels[contract.ConfigLabel]] = true
		record, ok, err := contract.RecordOf(node)
		if err != nil {
			return nil // its configs are unknown
		}
		if ok {
			used[record.Config], used[record.Previous] = true, true
		}
	}
	return a.o.Partition.Collect(ctx, now, used)
}
