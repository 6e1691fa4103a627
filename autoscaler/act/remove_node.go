package act

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// takeOut takes an empty node out of its pool, or replaces a sick one: it checks the node,
// cordons it, checks again and deletes the node as last read. A node that is not being
// drained is recorded as a drain that begins, and deleted plan.RemoveDelay after the drain's
// start, by a later reconcile. A pod that was bound in between keeps the node; the planner
// ends the drain.
func (a *Actor) takeOut(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	replace, reason := action.Verb == plan.Replace, plan.NodeEmpty
	if replace {
		reason = plan.NodeSick
	}
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := removable(pool, node); err != nil {
			return err
		}
		if _, underWay, _ := contract.RecordOf(node); underWay {
			return refuse("node %s has an operation under way", node.Name)
		}
		if err := notCordonedByOthers(node); err != nil {
			return err
		}
		if replace {
			if err := r.mayReplace(node, pool.Name); err != nil {
				return err
			}
		} else if seen, ok := r.pools[pool.Name]; ok && seen.Target <= int(pool.Spec.Min) { // the provider looks again
			return refuse("the size of pool %s is %d, and its minimum is %d", pool.Name, seen.Target, pool.Spec.Min)
		}
		if err := a.empty(ctx, r, node.Name); err != nil {
			return err
		}
		return a.settle(ctx, r, node, reason)
	})
	if err != nil {
		return err
	}
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := removable(pool, node); err != nil {
			return err
		}
		if err := a.empty(ctx, r, node.Name); err != nil {
			return err
		}
		r.replaced[pool.Name] = r.replaced[pool.Name] || replace
		return a.o.Pools.Delete(ctx, pool, node, replace)
	})
}

// settle records the drain of an empty node that is not being drained, and waits until
// plan.RemoveDelay after its start.
func (a *Actor) settle(ctx context.Context, r *reconcile, node *corev1.Node, reason plan.Reason) error {
	record, err := a.recordDrain(ctx, r, node, time.Time{}, reason)
	if err != nil {
		return err
	}
	if since := r.now.Sub(record.Started); since < plan.RemoveDelay {
		return fmt.Errorf("%w: node %s has been cordoned for %s, and is removed after %s", errWaiting, node.Name, since, plan.RemoveDelay)
	}
	return nil
}

// ofPool refuses a node that is not of the pool.
func ofPool(pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if pool == nil || node.Labels[v1alpha1.NodePoolLabel] != pool.Name || pools.IsForeign(pool, node.Labels) {
		return refuse("node %s does not belong to the action's pool", node.Name)
	}
	return nil
}

// removable refuses a node that is not of the pool, or must not be removed.
func removable(pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if err := ofPool(pool, node); err != nil {
		return err
	}
	if pool.Spec.ScaleDown.Disabled || pool.Spec.Provider.Fixed != nil {
		return refuse("pool %s does not scale down", pool.Name)
	}
	if v1alpha1.ScaleDownDisabled(node) {
		return refuse("an annotation of node %s disables its scale-down", node.Name)
	}
	return nil
}

// notCordonedByOthers refuses a node that is cordoned without our annotation: it may
// be under maintenance.
func notCordonedByOthers(node *corev1.Node) error {
	if node.Spec.Unschedulable && node.Annotations[v1alpha1.CordonAnnotation] == "" {
		return refuse("node %s is cordoned by a user or another controller", node.Name)
	}
	return nil
}

// empty refuses a node on which a pod runs. Pods of DaemonSets do not count unless they keep the node. Pods that are
// still there plan.StuckAfter after their grace period do not count either.
func (a *Actor) empty(ctx context.Context, r *reconcile, node string) error {
	pods, err := a.podsOn(ctx, node)
	if err != nil {
		return err
	}
	for i := range pods {
		leaves := pods[i].DeletionTimestamp
		stuck := leaves != nil && r.now.Sub(leaves.Time) >= plan.StuckAfter
		if !stuck && (!kube.IsDaemon(&pods[i]) || v1alpha1.KeepsNode(&pods[i])) {
			return refuse("pod %s/%s is on node %s", pods[i].Namespace, pods[i].Name, node)
		}
	}
	return nil
}

// mayReplace checks that the node is sick, and the limits on replacing. A replacement that waits for its
// cordon to settle was counted when it was decided.
func (r *reconcile) mayReplace(node *corev1.Node, pool string) error {
	if !sick(r.nodes[node.Name]) {
		return refuse("no GPU of node %s is sick", node.Name)
	}
	drain, underWay, _ := v1alpha1.DrainOf(node)
	if r.replaced[pool] {
		return refuse("a node of pool %s was replaced in this reconcile", pool)
	}
	last, known := r.state.LastReplace[pool]
	began := drain.Deadline.Add(-r.policy.DrainTimeout - time.Second) // the status has microseconds
	own := underWay && drain.Reason == string(plan.NodeSick) && !last.Before(began)
	if since := r.now.Sub(last); known && !own && since < r.policy.ReplaceInterval {
		return refuse("a node of pool %s was replaced %s ago, and %s must lie between replacements", pool, since, r.policy.ReplaceInterval)
	}
	all, ill := 0, 0
	for _, n := range r.nodes {
		if n.Pool != pool {
			continue
		}
		all++
		if sick(n) {
			ill++
		}
	}
	if share := float64(ill) / float64(max(1, all)); ill > 1 && share > r.policy.MaxSickShare {
		return refuse("%d of %d nodes of pool %s are sick, more than policy.maxSickShare: a common cause is likely", ill, all, pool)
	}
	return nil
}

func sick(n *plan.Node) bool {
	return n != nil && slices.ContainsFunc(n.GPUs, func(c plan.GPU) bool { return c.Health == gpu.Sick })
}
