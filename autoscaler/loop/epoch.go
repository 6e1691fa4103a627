package loop

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// takeOverTries at one pool, whose status others write too.
const takeOverTries = 8

// Under makes the store write under an epoch, which its first Load begins: from
// then on nobody of an earlier one can save, and so act. nil is for who writes
// nothing.
func (s *StatusStore) Under(e *act.Epoch) *StatusStore {
	s.epoch = e
	return s
}

// takeOver begins the epoch and writes it into every pool, compared and swapped.
// What an earlier leader wrote until then is in pools afterwards; what it wanted to
// write later is refused.
func (s *StatusStore) takeOver(ctx context.Context, pools []v1alpha1.GPUNodePool) error {
	if s.epoch == nil {
		return nil
	}
	latest := int64(0)
	for i := range pools {
		if last := pools[i].Status.Memory.Epoch; last != nil {
			latest = max(latest, last.Term)
		}
	}
	if err := s.epoch.Begin(ctx, latest); err != nil {
		return fmt.Errorf("beginning to lead: %w", err)
	}
	for i := range pools {
		if err := s.stamp(ctx, &pools[i]); err != nil {
			return fmt.Errorf("taking over GPUNodePool %s: %w", pools[i].Name, err)
		}
	}
	return nil
}

// stamp writes the epoch into one pool. One that is gone needs none.
func (s *StatusStore) stamp(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	for try := 1; ; try++ {
		if err := s.epoch.Follows(pool.Status.Memory.Epoch); err != nil {
			return err
		}
		base := client.MergeFromWithOptions(pool.DeepCopy(), client.MergeFromWithOptimisticLock{})
		pool.Status.Memory.Epoch = s.epoch.Stamp()
		err := s.client.Status().Patch(ctx, pool, base)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || try == takeOverTries {
			return err
		}
		if err := s.live.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
}
