package act

import (
	"context"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// scaleUp requests a size from the provider. Sizes are absolute, so a snapshot from
// before our last scale-up requests the present size. A snapshot from before our last
// removal would request too many nodes: it is refused, and the next reconcile observes
// the present size.
func (a *Actor) scaleUp(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	if pool == nil {
		return refuse("the action has no pool")
	}
	if pool.Spec.Provider.Fixed != nil {
		return refuse("pool %s is fixed", pool.Name)
	}
	if action.To > int(pool.Spec.Max) {
		return refuse("pool %s: %d nodes are more than max %d", pool.Name, action.To, pool.Spec.Max)
	}
	have, err := a.standing(ctx, pool)
	if err != nil {
		return err
	}
	if seen := r.pools[pool.Name].Size; have.nodes < seen {
		return refuse("pool %s has %d nodes, not %d as in the snapshot", pool.Name, have.nodes, seen)
	}
	return a.o.Pools.SetSize(ctx, pool, action.To)
}
