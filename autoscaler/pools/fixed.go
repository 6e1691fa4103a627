package pools

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Fixed is the provider of pools whose machines are neither made nor removed. Its nodes are those
// with the pool's label. The planner changes no such pool; should it try, the provider returns an
// error.
type Fixed struct {
	nodes client.Reader
}

// NewFixed returns the provider. It only reads, from any client or cache.
func NewFixed(nodes client.Reader) *Fixed { return &Fixed{nodes: nodes} }

// List implements Provider. The target is the current size.
func (f *Fixed) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	var list corev1.NodeList
	err := f.nodes.List(ctx, &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return Listing{}, fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	return Listing{Target: len(list.Items)}, nil
}

// SetSize implements Provider. The error is ErrFixed.
func (f *Fixed) SetSize(_ context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	return fmt.Errorf("asking for %d nodes of pool %s: %w", size, pool.Name, ErrFixed)
}

// Delete implements Provider. The error is ErrFixed.
func (f *Fixed) Delete(context.Context, *v1alpha1.GPUNodePool, *corev1.Node) error {
	return ErrFixed
}
