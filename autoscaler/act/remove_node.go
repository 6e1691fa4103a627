package act

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// takeOut takes an empty node out of its pool, or replaces a sick one. A node that is not being drained is cordoned and
// recorded as a drain that begins. It is deleted as it was read, plan.RemoveDelay after the drain's start, by a later
// reconcile. A pod that was bound in between keeps the node; the planner ends the drain.
func (a *Actor) takeOut(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	replace, reason := action.Verb == plan.Replace, plan.NodeEmpty
	if replace {
		reason = plan.NodeSick
	}
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := removable(pool, node); err != nil {
			return err
		}
		if _, underWay, _ := contract.RecordOf(node); underWay {
			return refuse("node %s has an operation under way", node.Name)
		}
		if err := notCordonedByOthers(node); err != nil {
			return err
		}
		if err := a.empty(ctx, r, node.Name); err != nil {
			return err
		}
		if err := a.settle(ctx, r, node, reason); err != nil {
			return err
		}
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
