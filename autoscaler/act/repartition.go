package act

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// repartition starts an operation: the configs, then the record and the cordon
// in one write, then a last look at the node's pods, then the label. What is
// missing after a crash is done by Resume.
func (a *Actor) repartition(ctx context.Context, r *round, action plan.Action) error {
	var record partition.Record
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
		return nil // Resume sets the label once mig-manager can know the config
	}
	return a.selectConfig(ctx, action.Node, record.ID)
}

// begin checks what the plan was made on, publishes the configs and returns the
// record to put on the node.
func (a *Actor) begin(ctx context.Context, r *round, node *corev1.Node, action plan.Action) (partition.Record, error) {
	if _, underWay, _ := partition.RecordOf(node); underWay {
		return partition.Record{}, refuse("node %s has an operation under way", node.Name)
	}
	if _, draining, _ := v1alpha1.DrainOf(node); draining {
		return partition.Record{}, refuse("node %s is being drained", node.Name)
	}
	byAgent := r.pools[action.Pool].MIG.KeepsBusy
	before, after, err := layouts(r.tables, r.nodes[action.Node], action, byAgent)
	if err != nil {
		return partition.Record{}, err
	}
	if offered, want := partition.Advertised(node), before.Resources(); !partition.SameOffer(offered, want) {
		return partition.Record{}, refuse("node %s offers %v, the plan was made on %v", node.Name, offered, want)
	}
	added := false
	if !byAgent {
		if added, err = a.o.Partition.Publish(ctx, before, after); err != nil {
			return partition.Record{}, err
		}
	}
	record := partition.Record{
		ID: action.Operation, Card: action.Card, Model: action.Model, Whole: !before[action.Card].MIG,
		Target: action.Target.String(), Before: action.Before.String(),
		Config: after.Name(), Previous: partition.FirstName(node.Labels[partition.ConfigLabel]),
		Expect: after.Resources(), Was: before.Resources(), Pods: r.podsOn(node.Name),
		Started: r.now, Deadline: action.Deadline, LabelAfter: r.now,
	}
	if byAgent {
		record.ForAgent(r.nodes[action.Node].Cards)
		// Nobody would answer, and the node would be cordoned for nothing.
		if err := partition.AgentReady(node, record.UUID, r.now); err != nil {
			return partition.Record{}, refuse("node %s: %v", node.Name, err)
		}
	} else {
		missing, err := a.name(ctx, node, before, &record)
		if err != nil {
			return partition.Record{}, err
		}
		added = added || missing
	}
	if added {
		record.LabelAfter = r.now.Add(a.o.ConfigDelay)
	}
	return record, nil
}

// name finds the configs to select and to go back to by what they say: the label may
// name one that is gone, or that the node has not been cut to since. missing is true
// where mig-manager has never seen one of them.
func (a *Actor) name(ctx context.Context, node *corev1.Node, before partition.NodeLayout, record *partition.Record) (missing bool, err error) {
	gives, err := a.o.Partition.Gives(ctx, record.Previous, before)
	if err != nil {
		return false, err
	}
	if !gives {
		record.Previous = before.Name()
	}
	if node.Labels[partition.ConfigLabel] == record.Config {
		record.Config, missing, err = a.o.Partition.Again(ctx, record.Config)
	}
	return missing, err
}

// layouts returns the node's layout as the plan saw it and as it wants it. The
// snapshot must agree with the action.
func layouts(tables mig.Tables, seen *plan.Node, action plan.Action, keepsBusy bool) (before, after partition.NodeLayout, err error) {
	if action.Operation == "" {
		return nil, nil, refuse("the operation has no name")
	}
	i := slices.IndexFunc(seen.Cards, func(c plan.Card) bool { return c.Index == action.Card })
	if i < 0 {
		return nil, nil, refuse("node %s has no card %d", seen.Name, action.Card)
	}
	card := seen.Cards[i]
	if have := partition.Placements(card); !have.Equal(action.Before) {
		return nil, nil, refuse("card %d of %s is cut into %s, the plan was made on %s", card.Index, seen.Name, have, action.Before)
	}
	for _, inst := range card.Instances {
		stays := keepsBusy && inst.Placed && slices.Contains(action.Target, inst.Placement)
		if inst.Holder != "" && !stays {
			return nil, nil, refuse("card %d of %s is held by %s: mig-manager can only change an empty card, an agent only what is idle", card.Index, seen.Name, inst.Holder)
		}
	}
	if !card.HoldersKnown || len(card.Holders) > 0 {
		return nil, nil, refuse("card %d of %s is not known to be empty", card.Index, seen.Name)
	}
	if before, err = partition.LayoutOf(tables, seen.Cards); err != nil {
		return nil, nil, fmt.Errorf("node %s: %w", seen.Name, err)
	}
	if after, err = before.With(tables, action.Card, action.Model, action.Target); err != nil {
		return nil, nil, fmt.Errorf("node %s: %w", seen.Name, err)
	}
	return before, after, nil
}

// selectConfig sets the label for an operation that is recorded, unless a pod
// came to the node before the cordon took hold: it may hold the card.
func (a *Actor) selectConfig(ctx context.Context, name, operation string) error {
	return a.onNode(ctx, name, func(node *corev1.Node) error {
		record, ok, err := partition.RecordOf(node)
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		if !ok || record.ID != operation || record.Undo != nil {
			return refuse("operation %s is no longer under way on node %s", operation, name)
		}
		pods, err := a.gpuPods(ctx, name)
		if err != nil {
			return err
		}
		for _, key := range pods {
			if slices.Contains(record.Pods, key) {
				continue
			}
			if err := a.o.Partition.Unmark(ctx, node, record); err != nil {
				return err
			}
			return refuse("pod %s came to node %s meanwhile", key, name)
		}
		return a.o.Partition.Select(ctx, node, record)
	})
}

// gpuPods returns the keys of the pods with GPUs that are on a node now.
func (a *Actor) gpuPods(ctx context.Context, node string) ([]string, error) {
	pods, err := a.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	var keys []string
	for i := range pods {
		// A demand that nobody can read may be for the card as well.
		if d, err := demand.FromResources(kube.ExtendedRequests(&pods[i])); err != nil || !d.Zero() {
			keys = append(keys, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	slices.SortFunc(keys, strings.Compare)
	return keys, nil
}

// podsOn returns the pods on a node that have not ended.
func (a *Actor) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := a.o.Live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("listing pods on node %s: %w", node, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return kube.IsOver(&p) }), nil
}
