package loop

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// takeOverTries bounds the attempts to write one pool's status after conflicts.
var takeOverTries = wait.Backoff{Steps: 8}

// Under makes the store write under an epoch, which the first Load begins: from then on
// no replica of an earlier epoch can save its state, and so act. nil is for a dry run.
func (s *StatusStore) Under(e *act.Epoch) *StatusStore {
	s.epoch = e
	return s
}

// takeOver begins the epoch and writes it to every pool under compare-and-swap.
// Afterwards pools include all writes of an earlier leader, and later ones fail.
func (s *StatusStore) takeOver(ctx context.Context, pools []v1alpha1.GPUNodePool) error {
	if s.epoch == nil {
		return nil
	}
	latest := int64(0)
	for i := range pools {
		if last := pools[i].Status.PlannerState.Epoch; last != nil {
			latest = max(latest, last.Term)
		}
	}
	if err := s.epoch.Begin(ctx, latest); err != nil {
		return fmt.Errorf("beginning the epoch: %w", err)
	}
	for i := range pools {
		if err := s.stamp(ctx, &pools[i]); err != nil {
			return fmt.Errorf("taking over GPUNodePool %s: %w", pools[i].Name, err)
		}
	}
	return nil
}

// stamp writes the epoch to one pool, unless that is deleted.
func (s *StatusStore) stamp(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	err := retry.RetryOnConflict(takeOverTries, func() error {
		if err := s.epoch.Follows(pool.Status.PlannerState.Epoch); err != nil {
			return err
		}
		base := client.MergeFromWithOptions(pool.DeepCopy(), client.MergeFromWithOptimisticLock{})
		pool.Status.PlannerState.Epoch = s.epoch.Stamp()
		err := s.client.Status().Patch(ctx, pool, base)
		if apierrors.IsConflict(err) {
			if unread := s.live.Get(ctx, client.ObjectKeyFromObject(pool), pool); unread != nil {
				return unread
			}
		}
		return err
	})
	return client.IgnoreNotFound(err)
}
