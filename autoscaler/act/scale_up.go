package act

import (
	"context"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// scaleUp asks the provider for a size. Sizes are absolute, so a plan made on a
// stale count asks for what is already there.
func (a *Actor) scaleUp(ctx context.Context, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	if pool == nil {
		return refuse("no pool is named")
	}
	if action.To > int(pool.Spec.Max) {
		return refuse("pool %s: %d nodes are more than max %d", pool.Name, action.To, pool.Spec.Max)
	}
	return a.o.Pools.SetSize(ctx, pool, action.To)
}
