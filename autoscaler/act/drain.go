package act

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// drainReason in the cordon annotation.
const drainReason = "drain"

// drain records the drain on its node, cordons it in the same write and asks its
// pods to leave. It is done when none is left; each round asks again those that a
// budget or a checkpoint kept.
func (a *Actor) drain(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		if err := ofPool(pool, node); err != nil {
			return err
		}
		return a.beginDrain(ctx, r, node, action)
	})
	if err != nil {
		return err
	}
	pods, err := a.podsOn(ctx, action.Node)
	if err != nil {
		return err
	}
	left := 0
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if kube.IsDaemon(pod) {
			continue
		}
		left++
		if pod.DeletionTimestamp != nil || mayMoveNow(pod, r.now) != nil {
			continue
		}
		// 429 is a budget without room.
		if err := a.evict(ctx, pod); err != nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%w for %d pods to leave node %s", errWaiting, left, action.Node)
	}
	return nil
}

// beginDrain makes sure that the drain stands on its node. One that is under way
// keeps its start and its deadline; past that it is the planner's to give up.
func (a *Actor) beginDrain(ctx context.Context, r *round, node *corev1.Node, action plan.Action) error {
	record, underWay, err := v1alpha1.DrainOf(node)
	switch {
	case err != nil:
		return refuse("node %s: %v", node.Name, err)
	case underWay && record.Deadline.Before(r.now):
		return refuse("node %s should have been drained by %s", node.Name, record.Deadline)
	case !underWay:
		if err := a.mayDrain(ctx, node); err != nil {
			return err
		}
		record = v1alpha1.Drain{Started: r.now, Deadline: action.Deadline, Reason: string(action.Reason)}
		if record.Deadline.IsZero() {
			record.Deadline = r.now.Add(r.policy.DrainTimeout)
		}
	case node.Spec.Unschedulable:
		return nil
	}
	return a.patchNode(ctx, node, func(n *corev1.Node) {
		annotate(n, v1alpha1.DrainAnnotation, record.String())
		setCordon(n, drainReason)
	})
}

// mayDrain refuses a node that cannot be emptied.
func (a *Actor) mayDrain(ctx context.Context, node *corev1.Node) error {
	if _, underWay, _ := partition.RecordOf(node); underWay {
		return refuse("node %s has an operation under way", node.Name)
	}
	pods, err := a.podsOn(ctx, node.Name)
	if err != nil {
		return err
	}
	for i := range pods {
		if kube.IsDaemon(&pods[i]) || pods[i].DeletionTimestamp != nil {
			continue
		}
		if err := mayMove(&pods[i]); err != nil {
			return err
		}
	}
	return nil
}
