package act

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// reclaim evicts one pod. It is done once the eviction is accepted: later reconciles
// observe the released GPUs.
func (a *Actor) reclaim(ctx context.Context, r *reconcile, action plan.Action) error {
	seen, ok := r.pod(action.Pod)
	if !ok {
		return refuse("pod %s was not in the snapshot", action.Pod)
	}
	namespace, name, _ := strings.Cut(action.Pod, "/")
	var pod corev1.Pod
	err := a.o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil // already gone
	case err != nil:
		return fmt.Errorf("getting pod %s: %w", action.Pod, err)
	case !same(&pod, seen.UID, seen.Created):
		return refuse("pod %s was recreated after the snapshot", action.Pod)
	case pod.Spec.NodeName == "" || pod.Spec.NodeName != action.Node || seen.Node != action.Node:
		return refuse("pod %s is on node %q, not %q as in the snapshot", action.Pod, pod.Spec.NodeName, action.Node)
	case kube.IsOver(&pod), pod.DeletionTimestamp != nil:
		return nil // its GPUs are released, or about to be
	}
	if err := r.mayMoveNow(&pod, time.Time{}); err != nil {
		return err
	}
	// Before the eviction, so that the freed capacity is reserved at any time.
	a.promise(ctx, r, action.For, action.Node)
	err = a.evict(ctx, &pod, nil)
	if isGone(err) {
		return nil
	}
	if err != nil {
		a.breakPromise(action.For)
	}
	if apierrors.IsTooManyRequests(err) {
		return refuse("a PodDisruptionBudget allows no disruption: %v", err)
	}
	return err
}
