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
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// settleDelay is the time from the cordon to mig-manager's order. The scheduler may have chosen the
// node for a pod before it observed the cordon; the binding follows within that time. An agent
// needs none: it reads the kubelet's allocations right before it destroys an instance.
const settleDelay = plan.RemoveDelay

// repartitions begins, continues and ends the operations on nodes.
type repartitions struct {
	liveCluster
	tidied time.Time // when configs were last collected
}

// repartition starts an operation. It publishes the configs, writes the record and
// the cordon at once, checks the node's pods again and sets the label. After a crash
// resume does the remaining steps.
func (a *repartitions) repartition(ctx context.Context, r *reconcile, action plan.Action) error {
	var record contract.Record
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		var err error
		if record, err = a.begin(ctx, r, node, action); err != nil {
			return err
		}
		return a.o.Partition.Mark(ctx, node, record)
	})
	if err != nil {
		return err
	}
	if record.LabelAfter.After(r.now) {
		return nil // resume sets the label then
	}
	return a.selectConfig(ctx, action.Node, record.ID)
}

// begin checks the node against the snapshot, publishes the configs and returns the
// record to write to the node.
func (a *repartitions) begin(ctx context.Context, r *reconcile, node *corev1.Node, action plan.Action) (contract.Record, error) {
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
	before, after, err := layouts(r.tables, names, r.nodes[action.Node], action, byAgent)
	if err != nil {
		return contract.Record{}, err
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
	if err := contract.Synced(node); err != nil {
		return contract.Record{}, err
	}
	published, err := a.o.Partition.Publish(ctx, r.now, before, after)
	if err != nil {
		return contract.Record{}, err
	}
	record.Config, record.Previous = after.Name(), partition.FirstName(node.Labels[contract.ConfigLabel])
	again, err := a.name(ctx, r.now, node, before, &record)
	if err != nil {
		return contract.Record{}, err
	}
	// The config may have been published earlier, for another node or by an attempt whose record was not written. Its
	// time may be in the future, from a clock that was ahead.
	record.LabelAfter = r.now.Add(settleDelay)
	for _, at := range []time.Time{published, again} {
		at = slices.MinFunc([]time.Time{at, r.now}, time.Time.Compare).Add(a.o.ConfigDelay)
		record.LabelAfter = slices.MaxFunc([]time.Time{record.LabelAfter, at}, time.Time.Compare)
	}
	return record, nil
}

// name sets the record's configs, the one to select and the one to roll back to, by
// their content: the node's label may name a config that is deleted or was never
// applied. again is when the config's other name was published, if that is selected.
func (a *repartitions) name(ctx context.Context, now time.Time, node *corev1.Node, before partition.NodeLayout, record *contract.Record) (again time.Time, err error) {
	gives, err := a.o.Partition.Gives(ctx, record.Previous, before)
	if err != nil {
		return again, err
	}
	if !gives {
		record.Previous = before.Name()
	}
	if node.Labels[contract.ConfigLabel] == record.Config {
		record.Config, again, err = a.o.Partition.Again(ctx, now, record.Config)
	}
	return again, err
}

// layouts returns the node's MIG layout in the snapshot and after the action, by these
// names. The snapshot must agree with the action, and each name must be certain.
func layouts(tables mig.Tables, names partition.Names, seen *plan.Node, action plan.Action, keepsBusy bool) (before, after partition.NodeLayout, err error) {
	if action.Operation == "" {
		return nil, nil, refuse("the operation has no name")
	}
	i := slices.IndexFunc(seen.GPUs, func(c plan.GPU) bool { return c.Index == action.GPU })
	if i < 0 {
		return nil, nil, refuse("node %s has no GPU %d", seen.Name, action.GPU)
	}
	device := seen.GPUs[i]
	if !device.MIG {
		return nil, nil, refuse("GPU %d of %s is not in MIG mode", device.Index, seen.Name)
	}
	if have := partition.Placements(device); !have.Equal(action.Before) {
		return nil, nil, refuse("GPU %d of %s has the layout %s, not %s as in the plan", device.Index, seen.Name, have, action.Before)
	}
	for _, inst := range device.Instances {
		stays := keepsBusy && inst.Placed && slices.Contains(action.Target, inst.Placement)
		if inst.AllocatedTo != "" && !stays {
			return nil, nil, refuse("GPU %d of %s is allocated to %s: mig-manager repartitions only free GPUs, an agent only free MIG instances", device.Index, seen.Name, inst.AllocatedTo)
		}
	}
	if !device.AllocationKnown || len(device.AllocatedTo) > 0 {
		return nil, nil, refuse("GPU %d of %s is allocated, or its allocation is unknown", device.Index, seen.Name)
	}
	if before, err = names.LayoutOf(tables, seen.GPUs); err != nil {
		return nil, nil, refuse("node %s: %v", seen.Name, err)
	}
	if after, err = before.With(tables, names, action.GPU, action.Model, action.Target); err != nil {
		return nil, nil, refuse("node %s: %v", seen.Name, err)
	}
	return before, after, nil
}

// selectConfig sets the label for a recorded operation. It ends the operation if a pod
// was bound to the node before the cordon took effect: the GPU may be allocated to it.
func (a *repartitions) selectConfig(ctx context.Context, name, operation string) error {
	return a.onNode(ctx, name, func(node *corev1.Node) error {
		record, ok, err := contract.RecordOf(node)
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		if !ok || record.ID != operation || record.Undo != nil {
			return refuse("operation %s is no longer under way on node %s", operation, name)
		}
		if record.Selected {
			return nil // since the cache was filled; selecting it again would remove mig-manager's answer
		}
		if record.Cordoned && !node.Spec.Unschedulable {
			if err := a.o.Partition.Unmark(ctx, node, record); err != nil {
				return err
			}
			return refuse("node %s was uncordoned by others", name)
		}
		pods, err := a.gpuPods(ctx, name)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if slices.Contains(record.Pods, pod) {
				continue
			}
			if err := a.o.Partition.Unmark(ctx, node, record); err != nil {
				return err
			}
			return refuse("pod %s was bound to node %s meanwhile", pod, name)
		}
		return a.o.Partition.Select(ctx, node, record)
	})
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
func (a *repartitions) rollback(ctx context.Context, r *reconcile, action plan.Action) error {
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
func (a *repartitions) uncordon(ctx context.Context, action plan.Action) error {
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
func (a *repartitions) liftCordon(ctx context.Context, node *corev1.Node, why string) error {
	by := node.Annotations[v1alpha1.CordonAnnotation]
	_, draining := node.Annotations[v1alpha1.DrainAnnotation]
	switch {
	case by == "" && !draining:
		return nil // already lifted
	case by != "" && by != why:
		return refuse("node %s is cordoned by %s, not %s", node.Name, by, why)
	}
	return a.patchNode(ctx, node, func(n *corev1.Node) {
		delete(n.Annotations, v1alpha1.DrainAnnotation)
		delete(n.Annotations, v1alpha1.CordonAnnotation)
		if by != "" {
			contract.Uncordon(n)
		}
	})
}

// resume continues the operations of a snapshot whose config is not selected yet, because of
// ConfigDelay or a restart. It decides nothing; past its deadline an operation is
// undone by the planner.
func (a *repartitions) resume(ctx context.Context, s plan.Snapshot) error {
	now := s.Now
	var errs []error
	for i := range s.Nodes {
		if s.Nodes[i].Operation == nil {
			continue
		}
		var node corev1.Node
		err := a.o.Client.Get(ctx, client.ObjectKey{Name: s.Nodes[i].Name}, &node)
		if record, due := due(&node, now); due && err == nil {
			err = a.goOn(ctx, &node, record)
		}
		if outcome(err, false) == Failed {
			errs = append(errs, err)
		}
	}
	if !a.o.Policy.Freeze && now.Sub(a.tidied) >= tidyEvery {
		a.tidied = now
		errs = append(errs, a.tidy(ctx, now))
	}
	return errors.Join(errs...)
}

// goOn selects the config of a recorded operation. Under a freeze, of the policy or of
// the pool, it removes the record instead: the node is unchanged until then.
func (a *repartitions) goOn(ctx context.Context, node *corev1.Node, record contract.Record) error {
	frozen := a.o.Policy.Freeze
	if name := node.Labels[v1alpha1.NodePoolLabel]; name != "" && !frozen {
		pool, err := a.pool(ctx, name)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		frozen = pool != nil && pool.Spec.Freeze
	}
	if !frozen {
		return a.selectConfig(ctx, node.Name, record.ID)
	}
	return a.onNode(ctx, node.Name, func(node *corev1.Node) error {
		now, ok, err := contract.RecordOf(node)
		if err != nil || !ok || now.ID != record.ID || now.Undo != nil || now.IsSelected(node) {
			return nil // it changed meanwhile; the planner continues it
		}
		return a.o.Partition.Unmark(ctx, node, now)
	})
}

// tidyEvery is the interval between removals of unused configs.
const tidyEvery = 10 * time.Minute

func (a *repartitions) tidy(ctx context.Context, now time.Time) error {
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

// due returns a node's operation and whether its label is to be set now.
func due(node *corev1.Node, now time.Time) (contract.Record, bool) {
	record, ok, err := contract.RecordOf(node)
	if !ok || err != nil || record.Undo != nil {
		return contract.Record{}, false
	}
	return record, !record.IsSelected(node) && !now.Before(record.LabelAfter) && !now.After(record.Deadline)
}
