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

// reclaim asks one pod to leave. It is done once the pod was asked: what it holds
// is free when it has gone, which the next rounds see.
func (a *Actor) reclaim(ctx context.Context, r *round, action plan.Action) error {
	seen, ok := r.pod(action.Pod)
	if !ok {
		return refuse("pod %s was not in the snapshot", action.Pod)
	}
	namespace, name, _ := strings.Cut(action.Pod, "/")
	var pod corev1.Pod
	err := a.o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil // it has gone
	case err != nil:
		return fmt.Errorf("getting pod %s: %w", action.Pod, err)
	case !same(&pod, seen.UID, seen.Created):
		return refuse("pod %s is another one than the plan was made on", action.Pod)
	case pod.Spec.NodeName == "" || pod.Spec.NodeName != action.Node || seen.Node != action.Node:
		return refuse("pod %s is on node %q, the plan was made on %q", action.Pod, pod.Spec.NodeName, action.Node)
	case kube.IsOver(&pod), pod.DeletionTimestamp != nil:
		return nil // it holds nothing, or was asked already
	}
	if err := mayMoveNow(&pod, r.now, time.Time{}); err != nil {
		return err
	}
	// Before, so that there is no moment at which the place is anybody's.
	a.promise(ctx, r, action.For, action.Node)
	err = a.evict(ctx, &pod, nil)
	if isGone(err) {
		return nil
	}
	if err != nil {
		a.breakPromise(action.For)
	}
	if apierrors.IsTooManyRequests(err) {
		return refuse("a budget has no room: %v", err)
	}
	return err
}
