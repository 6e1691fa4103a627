package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// evict evicts the pod with this UID through the eviction API, which enforces
// PodDisruptionBudgets. grace is the grace period in seconds, nil for the pod's own. Where a budget
// allows no disruption, or has changed or gone meanwhile, the error is a TooManyRequests.
func (a *Actor) evict(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	err := a.o.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}, GracePeriodSeconds: grace},
	})
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "poddisruptionbudgets" {
		err = apierrors.NewTooManyRequests(err.Error(), 0)
	}
	if err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// isGone reports that the pod to evict no longer exists; another one of its name may.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// mayMove refuses a pod that must never be moved. end is when its node is terminated, zero for never. Local storage
// keeps a pod only on a node without an end: with one, the pod is lost in any case.
func (r *reconcile) mayMove(pod *corev1.Pod, end time.Time) error {
	name := pod.Namespace + "/" + pod.Name
	if kube.IsDaemon(pod) {
		return refuse("pod %s belongs to a DaemonSet or is a static pod", name)
	}
	if why := v1alpha1.Pinned(pod); why != "" {
		return refuse("pod %s may not be moved: %s", name, why)
	}
	if r.policy.SkipNodesWithLocalStorage && end.IsZero() && v1alpha1.HasLocalStorage(pod) {
		return refuse("pod %s has local storage, and policy.skipNodesWithLocalStorage is set", name)
	}
	return nil
}

// mayMoveNow refuses a pod that must not be moved, or not before its checkpoint. end is when its node is terminated,
// zero for never. With an end, the wait for a checkpoint ends plan.LastCall before it.
func (r *reconcile) mayMoveNow(pod *corev1.Pod, end time.Time) error {
	if err := r.mayMove(pod, end); err != nil {
		return err
	}
	from, err := v1alpha1.EvictFrom(pod, r.now)
	if err != nil {
		return refuse("pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	if !end.IsZero() && from.After(end.Add(-plan.LastCall)) {
		from = end.Add(-plan.LastCall)
	}
	if from.After(r.now) {
		return refuse("pod %s/%s would lose work before %s", pod.Namespace, pod.Name, from.UTC().Format(time.RFC3339))
	}
	return nil
}

// drainReason in the cordon annotation.
const drainReason = "drain"

// drain records the drain on its node, cordons the node in the same write and evicts
// its pods. It is done when no pod is left; each reconcile tries again to evict those
// that a PodDisruptionBudget or a checkpoint keeps.
func (a *Actor) drain(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	taken := time.Time{} // when the provider terminates the node, zero for never
	if n := r.nodes[action.Node]; n != nil && action.Reason == plan.NodeInterrupted {
		taken = n.LeavesAt
	}
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		may := removable
		if !taken.IsZero() {
			may = ofPool // the provider terminates it whatever the pool's spec
		}
		if err := may(pool, node); err != nil {
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
	left := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return kube.IsDaemon(&p) })
	if err := a.evictAll(ctx, r, left, taken); err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%w for %d pods to leave node %s", errWaiting, len(left), action.Node)
	}
	return nil
}

// evictAll evicts the pods of a node in the planner's order of reclaiming: lowest
// priority first, then youngest first.
func (a *Actor) evictAll(ctx context.Context, r *reconcile, pods []corev1.Pod, taken time.Time) error {
	slices.SortStableFunc(pods, func(p, q corev1.Pod) int {
		return cmp.Or(cmp.Compare(ptr.Deref(p.Spec.Priority, 0), ptr.Deref(q.Spec.Priority, 0)),
			q.CreationTimestamp.Compare(p.CreationTimestamp.Time))
	})
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || comesBack(pod) || r.mayMoveNow(pod, taken) != nil {
			continue
		}
		// 429: a PodDisruptionBudget allows no disruption.
		err := a.evict(ctx, pod, graceUntil(pod, r.now, taken))
		if err != nil && !apierrors.IsTooManyRequests(err) && !isGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// cleanUp is the time between the end of a pod's grace period and the termination of
// its node, in seconds: volumes are unmounted and the pod's status is reported.
const cleanUp = 5

// graceUntil shortens a pod's grace period, in seconds, to the time left before its
// node is terminated; nil for the pod's own.
func graceUntil(pod *corev1.Pod, now, taken time.Time) *int64 {
	if taken.IsZero() {
		return nil
	}
	left := max(1, int64(taken.Sub(now).Seconds())-cleanUp)
	if left >= ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds) {
		return nil
	}
	return &left
}

// beginDrain writes the drain to its node. A drain under way keeps its
// deadline; past it the planner gives it up.
func (a *Actor) beginDrain(ctx context.Context, r *reconcile, node *corev1.Node, action plan.Action) error {
	record, underWay, err := v1alpha1.DrainOf(node)
	switch {
	case err == nil && underWay && record.Deadline.Before(r.now):
		return refuse("drain of node %s is past its deadline, %s", node.Name, record.Deadline)
	case !underWay:
		if err := a.mayDrain(ctx, r, node, action); err != nil {
			return err
		}
	}
	_, err = a.recordDrain(ctx, r, node, action.Deadline, action.Reason)
	return err
}

// recordDrain cordons a node and records its drain, or returns the drain under way. A drain that has ended since the
// snapshot does not begin again: pods use the node.
func (a *Actor) recordDrain(ctx context.Context, r *reconcile, node *corev1.Node, deadline time.Time, reason plan.Reason) (v1alpha1.Drain, error) {
	record, underWay, err := v1alpha1.DrainOf(node)
	switch {
	case err != nil:
		return record, refuse("node %s: %v", node.Name, err)
	case !underWay && r.nodes[node.Name].Drain != nil:
		return record, refuse("the drain of node %s has ended since the snapshot", node.Name)
	case !underWay:
		if deadline.IsZero() {
			deadline = r.now.Add(r.policy.DrainTimeout)
		}
		record = v1alpha1.Drain{Started: r.now, Deadline: deadline, Reason: string(reason)}
	case node.Spec.Unschedulable:
		return record, nil
	default: // uncordoned by hand since: pods may be about to be bound to it
		record.Started = r.now
	}
	return record, partition.PatchNode(ctx, a.o.Client, node, "patching", func(n *corev1.Node) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.DrainAnnotation, record.String())
		setCordon(n, drainReason)
	})
}

// mayDrain refuses a node that is cordoned by others or has a pod that must not be
// moved. A node that the provider terminates is drained as far as possible.
func (a *Actor) mayDrain(ctx context.Context, r *reconcile, node *corev1.Node, action plan.Action) error {
	if _, underWay, _ := contract.RecordOf(node); underWay {
		return refuse("node %s has an operation under way", node.Name)
	}
	if action.Reason == plan.NodeInterrupted {
		return nil
	}
	if err := notCordonedByOthers(node); err != nil {
		return err
	}
	pods, err := a.podsOn(ctx, node.Name)
	if err != nil {
		return err
	}
	for i := range pods {
		if kube.IsDaemon(&pods[i]) || pods[i].DeletionTimestamp != nil {
			continue
		}
		if err := r.mayMove(&pods[i], time.Time{}); err != nil {
			return err
		}
		if comesBack(&pods[i]) {
			return refuse("pod %s/%s tolerates the node's cordon", pods[i].Namespace, pods[i].Name)
		}
	}
	return nil
}

// comesBack reports a pod that tolerates the cordon of its node: the scheduler may bind its successor to it again.
func comesBack(pod *corev1.Pod) bool {
	cordon := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), cordon, false) })
}

// reclaim evicts one pod. It is done once the eviction is accepted: later reconciles
// observe the released GPUs.
func (a *Actor) reclaim(ctx context.Context, r *reconcile, action plan.Action) error {
	seen, ok := r.pods[action.Pod]
	if !ok {
		return refuse("pod %s was not in the snapshot", action.Pod)
	}
	pod, err := podOf(ctx, a.o.Live, action.Pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil // already gone
	case err != nil:
		return fmt.Errorf("getting pod %s: %w", action.Pod, err)
	case string(pod.UID) != seen.UID:
		return refuse("pod %s was recreated after the snapshot", action.Pod)
	case pod.Spec.NodeName != action.Node:
		return refuse("pod %s is on node %q, not %q as in the snapshot", action.Pod, pod.Spec.NodeName, action.Node)
	case kube.IsOver(pod), pod.DeletionTimestamp != nil:
		return nil // its GPUs are released, or about to be
	}
	if err := r.mayMoveNow(pod, time.Time{}); err != nil {
		return err
	}
	// Before the eviction, so that the freed capacity is reserved at any time.
	a.promises.give(ctx, r, action.For, action.Node)
	err = a.evict(ctx, pod, nil)
	if isGone(err) {
		return nil
	}
	if err != nil { // still nominated, they would keep other pods from the node
		a.promises.drop(ctx, action.For)
	}
	if apierrors.IsTooManyRequests(err) {
		return refuse("a PodDisruptionBudget allows no disruption: %v", err)
	}
	return err
}
