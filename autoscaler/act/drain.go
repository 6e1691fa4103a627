package act

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// drainReason in the cordon annotation.
const drainReason = "drain"

// drain cordons a node and asks its pods to leave, through the eviction API, so
// that budgets and grace periods hold. It is done when none is left.
func (a *Actor) drain(ctx context.Context, r *round, action plan.Action) error {
	err := a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error { return a.cordon(ctx, node, drainReason) })
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
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := a.o.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
		})
		// 429 is a budget without room: it is asked again next round.
		if err != nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err))
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
