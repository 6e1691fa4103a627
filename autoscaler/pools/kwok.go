package pools

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Publisher publishes layouts to mig-manager; *partition.Manager implements it.
type Publisher interface {
	Publish(ctx context.Context, layouts ...partition.NodeLayout) (added bool, err error)
}

// KWOK makes Node objects itself, for clusters with nodes simulated by KWOK.
type KWOK struct {
	client client.Client
	live   client.Reader
	boot   Publisher
}

// NewKWOK returns the provider. live must read from the API server, so that a node made a moment
// ago is counted.
func NewKWOK(c client.Client, live client.Reader, boot Publisher) *KWOK {
	return &KWOK{client: c, live: live, boot: boot}
}

// List implements Provider. A Node object exists as soon as it is requested, so the target is their
// number.
func (k *KWOK) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	names, err := namesOf(ctx, k.client, pool)
	return Listing{Target: len(names)}, err
}

// Template implements Provider.
func (k *KWOK) Template(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error) {
	t, err := templateOf(pool, tables)
	if err != nil {
		return plan.Template{}, err
	}
	layout, err := layoutOf(tables, t)
	if err != nil {
		return plan.Template{}, err
	}
	if layout != nil {
		t.Labels[partition.ConfigLabel] = layout.Name()
	}
	return t, nil
}

// SetSize implements Provider. Nodes get the first free names "<pool>-<n>", so that a second try
// after a crash makes the same ones.
func (k *KWOK) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	names, err := namesOf(ctx, k.live, pool)
	if err != nil || len(names) >= size {
		return err
	}
	tables, err := k.tables(ctx)
	if err != nil {
		return err
	}
	t, err := k.Template(pool, tables)
	if err != nil {
		return fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	layout, err := layoutOf(tables, t)
	if err != nil {
		return fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	if layout != nil {
		if _, err := k.boot.Publish(ctx, layout); err != nil {
			return fmt.Errorf("publishing the boot layout of pool %s: %w", pool.Name, err)
		}
	}
	for n, have := 1, len(names); have < size; n++ {
		name := fmt.Sprintf("%s-%d", pool.Name, n)
		if names[name] {
			continue
		}
		err := k.client.Create(ctx, newNode(name, pool, t, layout))
		if apierrors.IsAlreadyExists(err) {
			continue // the name is taken by a node of another pool or of none
		}
		if err != nil {
			return fmt.Errorf("making node %s: %w", name, err)
		}
		have++
	}
	return nil
}

// Delete implements Provider.
func (k *KWOK) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return fmt.Errorf("it is not of pool %s", pool.Name)
	}
	err := k.client.Delete(ctx, node, client.Preconditions{UID: ptr.To(node.UID), ResourceVersion: ptr.To(node.ResourceVersion)})
	return client.IgnoreNotFound(err)
}

// namesOf returns the names of the pool's nodes.
func namesOf(ctx context.Context, from client.Reader, pool *v1alpha1.GPUNodePool) (map[string]bool, error) {
	var list corev1.NodeList
	err := from.List(ctx, &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	names := make(map[string]bool, len(list.Items))
	for i := range list.Items { // by index: not copied
		names[list.Items[i].Name] = true
	}
	return names, nil
}

// tables are what nodes have published of their GPUs. Errors of single nodes are reported by
// package observe.
func (k *KWOK) tables(ctx context.Context) (mig.Tables, error) {
	var list corev1.NodeList
	if err := k.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	tables, _ := partition.Published(list.Items)
	return tables, nil
}
