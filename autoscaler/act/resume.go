package act

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// Resume continues recorded operations whose config is not selected yet, because of
// ConfigDelay or a restart. It decides nothing; past its deadline an operation is
// undone by the planner.
func (a *Actor) Resume(ctx context.Context, now time.Time) error {
	if a.o.DryRun {
		return nil
	}
	var nodes corev1.NodeList
	if err := a.o.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	var errs []error
	for i := range nodes.Items {
		record, due := due(&nodes.Items[i], now)
		if !due {
			continue
		}
		err := a.goOn(ctx, &nodes.Items[i], record)
		if outcome(err, false) == Failed {
			errs = append(errs, err)
		}
	}
	if !a.o.Policy.Freeze && now.Sub(a.tidied) >= tidyEvery {
		a.tidied = now
		errs = append(errs, a.tidy(ctx))
	}
	return errors.Join(errs...)
}

// goOn selects the config of a recorded operation. Under a freeze, of the policy or of
// the pool, it removes the record instead: the node is unchanged until then.
func (a *Actor) goOn(ctx context.Context, node *corev1.Node, record contract.Record) error {
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

func (a *Actor) tidy(ctx context.Context) error {
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
	return a.o.Partition.Collect(ctx, used)
}

// due returns a node's operation and whether its label is to be set now.
func due(node *corev1.Node, now time.Time) (contract.Record, bool) {
	record, ok, err := contract.RecordOf(node)
	if !ok || err != nil || record.Undo != nil {
		return contract.Record{}, false
	}
	return record, !record.IsSelected(node) && !now.Before(record.LabelAfter) && !now.After(record.Deadline)
}
