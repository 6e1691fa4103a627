package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// replace replaces a sick node. A pools.Replacer does it in one step, by the machine's
// identity and without changing the pool's size. With any other provider the node is
// removed and the previous size requested again: if that is interrupted, the pool is
// one node smaller and grows again for its minimum or for the next pod.
func (a *Actor) replace(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	size := 0
	err := a.takeOut(ctx, r, pool, action, takeOut{
		reason: plan.NodeSick,
		may: func(node *corev1.Node) error {
			if err := r.mayReplace(node, pool.Name); err != nil {
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

// errNoSuccessor marks a replacement whose node is removed and not yet requested again.
var errNoSuccessor = errors.New("requesting its replacement")

func (a *Actor) replaceNode(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, size int) error {
	if p, ok := a.o.Pools.(pools.Replacer); ok {
		if err := p.Replace(ctx, pool, node); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if err := a.o.Pools.Delete(ctx, pool, node); err != nil {
		return err
	}
	if err := a.o.Pools.SetSize(ctx, pool, size); err != nil {
		return fmt.Errorf("node %s is gone; %w: %w", node.Name, errNoSuccessor, err)
	}
	return nil
}

// sizeNow is the size last requested from the pool's provider. It refuses a snapshot
// with more nodes than the pool has: its size would bring back a removed node.
func (a *Actor) sizeNow(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool) (int, error) {
	seen, ok := r.pools[pool.Name]
	if !ok {
		return 0, refuse("pool %s was not in the snapshot", pool.Name)
	}
	have, err := a.standing(ctx, pool)
	if err != nil {
		return 0, err
	}
	if nodes := have.nodes + r.gone[pool.Name]; nodes < seen.Size {
		return 0, refuse("pool %s has %d nodes, not %d as in the snapshot", pool.Name, nodes, seen.Size)
	}
	return seen.Target - r.gone[pool.Name], nil
}

// mayReplace checks that the node is sick, and the limits on replacing. A replacement that waits for its
// cordon to settle was counted when it was decided.
func (r *reconcile) mayReplace(node *corev1.Node, pool string) error {
	if !sick(r.nodes[node.Name]) {
		return refuse("no GPU of node %s is sick", node.Name)
	}
	drain, underWay, _ := v1alpha1.DrainOf(node)
	if r.replaced[pool] {
		return refuse("a node of pool %s was replaced in this reconcile", pool)
	}
	for _, last := range r.state.LastReplace {
		if underWay && drain.Reason == string(plan.NodeSick) && !last.At.Before(drain.Started.Add(-time.Second)) { // the status has microseconds
			continue
		}
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
		return refuse("%d of %d nodes of pool %s are sick, more than policy.maxSickShare: a common cause is likely", ill, all, pool)
	}
	return nil
}

func sick(n *plan.Node) bool {
	return n != nil && slices.ContainsFunc(n.GPUs, func(c plan.GPU) bool { return c.Health == gpu.Sick })
}
