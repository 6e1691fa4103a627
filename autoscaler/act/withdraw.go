package act

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// withdrawEvery is the least time between two attempts to withdraw one pool's request: some
// providers can never do it.
const withdrawEvery = time.Minute

// withdraw takes back the part of a pool's target that its provider has not delivered.
func (a *Actor) withdraw(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	if pool == nil || pool.Spec.Provider.Fixed != nil {
		return refuse("the action has no pool that a provider sizes")
	}
	if last, ok := a.withdrawn[pool.Name]; ok && r.now.Sub(last) < withdrawEvery && !r.now.Before(last) {
		return refuse("the request of pool %s was withdrawn %s ago", pool.Name, r.now.Sub(last))
	}
	a.withdrawn[pool.Name] = r.now
	have, err := a.standing(ctx, pool)
	if err != nil {
		return err
	}
	if have.target <= have.nodes || have.target != action.From {
		return refuse("pool %s has %d nodes of %d, not %d of %d as in the plan", pool.Name, have.nodes, have.target, action.To, action.From)
	}
	w, ok := a.o.Pools.(pools.Withdrawer)
	if !ok {
		return fmt.Errorf("%w: the provider of pool %s cannot take back a request", pools.ErrUnnamed, pool.Name)
	}
	return w.Withdraw(ctx, pool)
}
