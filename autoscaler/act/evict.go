package act

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// evict evicts the pod with this UID through the eviction API, which enforces
// PodDisruptionBudgets. grace is the grace period in seconds, nil for the pod's own.
func (a *Actor) evict(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	err := a.o.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}, GracePeriodSeconds: grace},
	})
	if err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// isGone reports that the pod to evict no longer exists; another one of its name may.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// mayMove refuses a pod that must never be moved. Local storage keeps a pod unless its
// node is terminated at end, zero for never: then it is lost in any case.
func (r *reconcile) mayMove(pod *corev1.Pod, end time.Time) error {
	name := pod.Namespace + "/" + pod.Name
	if kube.IsDaemon(pod) {
		return refuse("pod %s belongs to a DaemonSet or its node", name)
	}
	if !v1alpha1.SafeToEvict(pod) {
		return refuse("pod %s is annotated as not safe to evict", name)
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return refuse("pod %s has no controller that would recreate it", name)
	}
	if r.policy.SkipNodesWithLocalStorage && end.IsZero() && v1alpha1.HasLocalStorage(pod) {
		return refuse("pod %s has local storage, and policy.skipNodesWithLocalStorage is set", name)
	}
	return nil
}

// mayMoveNow refuses a pod that must not be moved, or not before its checkpoint. A
// node is terminated at end, zero for never: then a checkpoint is waited for until
// plan.LastCall before end.
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
