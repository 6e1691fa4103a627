package nodegroups

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Name of the provider in the autoscaler's configuration.
const Name = "kwok"

// Of is the provider of a pool whose nodes a Maker makes; the group has the pool's name.
func Of(pool string) v1alpha1.Provider {
	return v1alpha1.Provider{ExternalGRPC: &v1alpha1.ExternalGRPCProvider{Name: Name, NodeGroup: pool}}
}

// Maker makes and removes Node objects.
type Maker struct {
	client client.Client
	live   client.Reader
	boot   *partition.Manager
	// ExternalBoot leaves out KWOK's annotation and the devices: another fake simulates the boot.
	ExternalBoot bool
}

// New returns a Maker, which publishes boot layouts in mig-manager's usual ConfigMap. live must read from the API
// server, so that a node made a moment ago is counted.
func New(c client.Client, live client.Reader) *Maker {
	return &Maker{client: c, live: live, boot: partition.NewManager(c, live, partition.DefaultConfigMap)}
}

// List implements pools.Provider. A Node object exists as soon as it is requested, so the target is
// their number.
func (m *Maker) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	have, err := m.nodes(ctx, pool)
	have = slices.DeleteFunc(have, func(n corev1.Node) bool { return pools.IsForeign(pool, n.Labels) })
	return pools.Listing{Target: len(have)}, err
}

// layoutOf is the layout of a template, nil if no GPU is in MIG mode: such nodes need no config.
func layoutOf(tables mig.Tables, t plan.Template) (partition.NodeLayout, error) {
	for _, c := range t.GPUs {
		if c.MIG {
			return partition.Names{}.LayoutOf(tables, t.GPUs)
		}
	}
	return nil, nil
}

// SetSize implements pools.Provider. Nodes get the first free names "<pool>-<n>", so that a second try
// after a crash makes the same ones.
func (m *Maker) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, from, size int) error {
	have, err := m.nodes(ctx, pool)
	if err != nil || len(have) >= size {
		return err
	}
	if len(have) < from {
		return pools.ErrStale
	}
	node, err := m.template(ctx, pool)
	if err != nil {
		return fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	for n := 1; len(have) < size; n++ {
		made := node(fmt.Sprintf("%s-%d", pool.Name, n))
		err := m.client.Create(ctx, made)
		if apierrors.IsAlreadyExists(err) { // of the pool since, of another, or of none
			if have, err = m.nodes(ctx, pool); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("making a node of pool %s: %w", pool.Name, err)
		}
		have = append(have, *made)
	}
	return nil
}

// Add makes a node of the pool under a name of the caller's.
func (m *Maker) Add(ctx context.Context, pool *v1alpha1.GPUNodePool, name string) error {
	node, err := m.template(ctx, pool)
	if err == nil {
		err = m.client.Create(ctx, node(name))
	}
	if err != nil {
		return fmt.Errorf("making node %s: %w", name, err)
	}
	return nil
}

// template publishes the boot layout of a pool, and returns what its node of a name is.
func (m *Maker) template(ctx context.Context, pool *v1alpha1.GPUNodePool) (func(name string) *corev1.Node, error) {
	var all corev1.NodeList
	if err := m.live.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	tables, _ := contract.TablesOf(contract.Publications(all.Items)) // package observe reports errors of single nodes
	t, err := pools.Template(pool, tables, pools.Listing{})
	if err != nil {
		return nil, err
	}
	layout, err := layoutOf(tables, t)
	if err != nil {
		return nil, err
	}
	if layout != nil {
		t.Labels[contract.ConfigLabel] = layout.Name()
		if _, err := m.boot.Publish(ctx, time.Time{}, layout); err != nil {
			return nil, fmt.Errorf("publishing the boot layout: %w", err)
		}
	}
	return func(name string) *corev1.Node { return m.newNode(name, pool, t, layout) }, nil
}

// Delete implements pools.Provider.
func (m *Maker) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, replace bool) error {
	if node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return fmt.Errorf("it is not of pool %s", pool.Name)
	}
	have, err := m.nodes(ctx, pool)
	if err != nil {
		return err
	}
	if !replace && len(have) <= int(pool.Spec.Min) {
		return pools.ErrStale
	}
	err = m.client.Delete(ctx, node, client.Preconditions{UID: ptr.To(node.UID), ResourceVersion: ptr.To(node.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil || !replace || len(have) > int(pool.Spec.Max) {
		return client.IgnoreNotFound(err)
	}
	return m.SetSize(ctx, pool, 0, len(have))
}

// Withdraw implements pools.Provider. There is nothing to take back: a node exists as soon as it is requested.
func (m *Maker) Withdraw(context.Context, *v1alpha1.GPUNodePool, int) error { return nil }

// nodes of a pool, as the API server has them.
func (m *Maker) nodes(ctx context.Context, pool *v1alpha1.GPUNodePool) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := m.live.List(ctx, &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}); err != nil {
		return nil, fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	return list.Items, nil
}
