package act

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// replaceReason in the cordon annotation.
const replaceReason = "replace"

// replace removes a sick node and has the pool make another: the provider is then
// asked for as many nodes as before. Cut short in between, the pool is one
// smaller, and grows again for its minimum or for the next pod.
func (a *Actor) replace(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	size := 0
	err := a.takeOut(ctx, r, pool, action, replaceReason, func(node *corev1.Node) error {
		if err := r.mayReplace(node.Name, pool.Name); err != nil {
			return err
		}
		var err error
		size, err = a.sizeNow(ctx, r, pool)
		return err
	})
	if err != nil {
		return err
	}
	r.replaced[pool.Name] = true
	if err := a.o.Pools.SetSize(ctx, pool, min(size, int(pool.Spec.Max))); err != nil {
		return fmt.Errorf("node %s is gone; asking for another: %w", action.Node, err)
	}
	r.gone[pool.Name]-- // it comes back
	return nil
}

// sizeNow is what the pool's provider was last asked for. A plan made on more
// nodes than there are would ask for one that we have given back: it is refused.
func (a *Actor) sizeNow(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool) (int, error) {
	seen, ok := r.pools[pool.Name]
	if !ok {
		return 0, refuse("pool %s was not in the snapshot", pool.Name)
	}
	have, err := a.nodesOf(ctx, pool)
	if err != nil {
		return 0, err
	}
	if gone := r.gone[pool.Name]; have+gone < seen.Size {
		return 0, refuse("pool %s has %d nodes, the plan was made on %d", pool.Name, have+gone, seen.Size)
	}
	return seen.Target - r.gone[pool.Name], nil
}

// mayReplace checks the bounds on replacing, and that the node is sick.
func (r *round) mayReplace(node, pool string) error {
	if !sick(r.nodes[node]) {
		return refuse("no card of node %s is sick", node)
	}
	if r.replaced[pool] {
		return refuse("a node of pool %s was replaced in this round", pool)
	}
	for _, last := range r.lastReplace {
		if since := r.now.Sub(last.At); last.Name == pool && since < r.policy.ReplaceInterval {
			return refuse("a node of pool %s was replaced %s ago, at most one in %s is", pool, since, r.policy.ReplaceInterval)
		}
	}
	all, ill := 0, 0
	for _, n := range r.nodes {
		if n.Pool != pool {
			continue
		}
		all++
		if sick(n) {
			ill++
		}
	}
	if share := float64(ill) / float64(max(1, all)); ill > 1 && share > r.policy.MaxSickShare {
		return refuse("%d of %d nodes of pool %s are sick: then it is not the nodes", ill, all, pool)
	}
	return nil
}

func sick(n *plan.Node) bool {
	return n != nil && slices.ContainsFunc(n.Cards, func(c plan.Card) bool { return c.Health == gpu.Sick })
}
