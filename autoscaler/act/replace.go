package act

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// replaceReason in the cordon annotation.
const replaceReason = "replace"

// replace has a sick node replaced. A provider that knows how does it in one step,
// by the machine's identity and without its size ever changing. For any other the
// node is removed and as many nodes asked for as before: cut short in between, the
// pool is one smaller, and grows again for its minimum or for the next pod.
func (a *Actor) replace(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	size := 0
	err := a.takeOut(ctx, r, pool, action, takeOut{
		why: replaceReason,
		may: func(node *corev1.Node) error {
			if err := r.mayReplace(node.Name, pool.Name); err != nil {
				return err
			}
			var err error
			size, err = a.sizeNow(ctx, r, pool)
			return err
		},
		take: func(node *corev1.Node) error { return a.replaceNode(ctx, pool, node, min(size, int(pool.Spec.Max))) },
	})
	if err == nil || errors.Is(err, errNoSuccessor) {
		r.replaced[pool.Name] = true
	}
	return err
}

// errNoSuccessor marks an error of a replacement of which the first half is done.
var errNoSuccessor = errors.New("asking for its successor")

func (a *Actor) replaceNode(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, size int) error {
	if p, ok := a.o.Pools.(pools.Replacer); ok {
		if err := p.Replace(ctx, pool, node); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if err := a.o.Pools.Delete(ctx, pool, []*corev1.Node{node}); err != nil {
		return err
	}
	if err := a.o.Pools.SetSize(ctx, pool, size); err != nil {
		return fmt.Errorf("node %s is gone; %w: %w", node.Name, errNoSuccessor, err)
	}
	return nil
}

// sizeNow is what the pool's provider was last asked for. A plan made on more
// nodes than there are would ask for one that we have given back: it is refused.
func (a *Actor) sizeNow(ctx context.Context, r *round, pool *v1alpha1.GPUNodePool) (int, error) {
	seen, ok := r.pools[pool.Name]
	if !ok {
		return 0, refuse("pool %s was not in the snapshot", pool.Name)
	}
	have, err := a.standing(ctx, pool)
	if err != nil {
		return 0, err
	}
	if nodes := have.nodes + r.gone[pool.Name]; nodes < seen.Size {
		return 0, refuse("pool %s has %d nodes, the plan was made on %d", pool.Name, nodes, seen.Size)
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
	for _, last := range r.memory.LastReplace {
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
