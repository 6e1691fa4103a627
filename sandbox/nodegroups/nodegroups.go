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

// Name is the provider's name in the autoscaler's configuration.
const Name = "kwok"

// Of returns the provider of a pool whose nodes a Maker makes. The group has the pool's name.
func Of(pool string) v1alpha1.Provider {
	return v1alpha1.Provider{ExternalGRPC: &v1alpha1.ExternalGRPCProvider{Name: Name, NodeGroup: pool}}
}

// Maker makes and removes Node objects.
type Maker struct {
	client client.Client
	live   client.Reader
	boot   *partition.Manager
	// ExternalBoot leaves out KWOK's annotation and the devices, because another fake simulates the boot.
	ExternalBoot bool
}

// New returns a Maker. It publishes boot layouts in mig-manager's default ConfigMap. live must read directly
// from the API server, so that a node that was just created counts.
func New(c client.Client, live client.Reader) *Maker {
	return &Maker{client: c, live: live, boot: partition.NewManager(c, live, partition.DefaultConfigMap)}
}

// List implements pools.Provider. A Node object exists as soon as it is requested, so the target size is the
// number of nodes.
func (m *Maker) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	have, err := m.nodes(ctx, pool)
	have = slices.DeleteFunc(have, func(n corev1.Node) bool { return pools.IsForeign(pool, n.Labels) })
	return pools.Listing{Target: len(have)}, err
}

// layoutOf returns the MIG layout of a template; nil if no GPU is in MIG mode, since such nodes require no
// mig-manager config.
func layoutOf(tables mig.Tables, t plan.Template) (partition.NodeLayout, error) {
	for _, c := range t.GPUs {
		if c.MIG {
			return partition.Names{}.LayoutOf(tables, t.GPUs)
		}
	}
	return nil, nil
}

// SetSize implements pools.Provider. New nodes get the first free names "<pool>-<n>", so a retry after a
// crash creates the same ones.
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
		if apierrors.IsAlreadyExists(err) { // now a node of this pool, of another, or of none
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

// Add makes a node of the pool with a given name.
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

// template publishes the boot layout of a pool. It returns a function that makes a node with a given name.
func (m *Maker) template(ctx context.Context, pool *v1alpha1.GPUNodePool) (func(name string) *corev1.Node, error) {
	var all corev1.NodeList
	if err := m.live.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	tables, _ := contract.TablesOf(contract.Publications(all.Items)) // package observe reports the errors of single nodes
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

// Withdraw implements pools.Provider. No request is ever open, since a node exists as soon as it is
// requested.
func (m *Maker) Withdraw(context.Context, *v1alpha1.GPUNodePool, int) error { return nil }

// nodes returns the nodes of a pool, read from the API server.
func (m *Maker) nodes(ctx context.Context, pool *v1alpha1.GPUNodePool) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := m.live.List(ctx, &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}); err != nil {
		return nil, fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	return list.Items, nil
}
