package neighbours

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	claimFinalizer = "karpenter.sh/termination"
	labelNodePool  = "karpenter.sh/nodepool"
)

var karpenter = schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}

// Claims plays Karpenter's two controllers of static NodePools: one makes
// NodeClaims while fewer than spec.replicas run, up to the limit on nodes, which
// counts those that are being deleted too; the other deletes what runs above the
// replicas, the oldest first. The second sees the NodeClaims of one pass before,
// since the real one's cache may lag. The NodePool is as new as the NodeClaims: the
// real one may see a claim go before it sees the limit lowered, and then makes a node
// too many, which goes once it is idle.
type Claims struct {
	Client client.Client
	Nodes  Nodes

	before map[string][]*unstructured.Unstructured // running claims of a NodePool, one pass before
}

// Run plays until ctx ends; an error it could not go on from is returned.
func (k *Claims) Run(ctx context.Context) error {
	return run(ctx, k.Client, map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error{karpenter.WithKind("NodePool"): k.turn})
}

func (k *Claims) turn(ctx context.Context, pool *unstructured.Unstructured) error {
	all, err := list(ctx, k.Client, karpenter.WithKind("NodeClaim"), map[string]string{labelNodePool: pool.GetName()})
	if err != nil {
		return err
	}
	if err := k.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	want, static, _ := unstructured.NestedInt64(pool.Object, "spec", "replicas")
	if !static {
		return nil
	}
	var running []*unstructured.Unstructured
	for i := range all {
		if all[i].GetDeletionTimestamp() == nil {
			running = append(running, &all[i])
			continue
		}
		if err := k.Nodes.remove(ctx, k.Client, &all[i], claimFinalizer); err != nil {
			return err
		}
	}
	missing := want - int64(len(running))
	if limit, ok, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "limits", "nodes"); ok {
		q, err := resource.ParseQuantity(fmt.Sprint(limit))
		if err != nil {
			return fmt.Errorf("NodePool %s: spec.limits.nodes: %w", pool.GetName(), err)
		}
		missing = min(missing, q.Value()-int64(len(all)))
	}
	for range max(0, missing) {
		if err := k.add(ctx, pool); err != nil {
			return err
		}
	}
	slices.SortFunc(running, func(a, b *unstructured.Unstructured) int {
		made, than := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(made.Compare(than.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	if k.before == nil {
		k.before = map[string][]*unstructured.Unstructured{}
	}
	running, k.before[pool.GetName()] = k.before[pool.GetName()], running
	for _, victim := range running[:max(0, len(running)-int(want))] {
		if err := k.Client.Delete(ctx, victim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting NodeClaim %s: %w", victim.GetName(), err)
		}
	}
	return nil
}

func (k *Claims) add(ctx context.Context, pool *unstructured.Unstructured) error {
	own := map[string]string{labelNodePool: pool.GetName()}
	u, labels, err := instance(ctx, k.Client, pool, karpenter.WithKind("NodeClaim"), claimFinalizer, own)
	if err != nil {
		return err
	}
	id, err := k.Nodes.add(ctx, k.Client, u.GetName(), merged(labels, own))
	if err != nil {
		return err
	}
	return writeStatus(ctx, k.Client, u, map[string]any{"nodeName": u.GetName(), "providerID": id})
}
