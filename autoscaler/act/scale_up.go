package act

import (
	"context"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// scaleUp asks the provider for a size. Sizes are absolute, so a plan made on a
// count from before our own last scale-up asks for what is already there. One
// from before our own last removal would ask for more than anybody wants: it is
// refused, and the next round sees the new count.
func (a *Actor) scaleUp(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	if pool == nil {
		return refuse("no pool is named")
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
		return refuse("pool %s has %d nodes, the plan was made on %d", pool.Name, have.nodes, seen)
	}
	return a.o.Pools.SetSize(ctx, pool, action.To)
}
