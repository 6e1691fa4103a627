package pools

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// Provider makes and removes nodes. Its methods are called from one goroutine.
type Provider interface {
	// List returns what the provider knows of the pool. It may read a cache.
	List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error)
	// Template returns what a new node will look like. It asks nobody.
	Template(pool *v1alpha1.GPUNodePool) (plan.Template, error)
	// SetSize asks for size nodes where there are fewer; it removes none.
	SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error
	// Delete removes these very nodes. A node that is gone or was changed since
	// it was read is an error of its own, joined with the others'.
	Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) error
}

// Listing is what a provider knows of a pool.
type Listing struct {
	// Target is the size last asked of it.
	Target int
}

// Providers finds the provider of a pool.
type Providers struct {
	KWOK Provider
}

// ErrNoProvider is returned for a pool whose provider block is empty or not
// served here.
var ErrNoProvider = errors.New("no provider")

// For returns the provider of pool.
func (p Providers) For(pool *v1alpha1.GPUNodePool) (Provider, error) {
	if pool.Spec.Provider.KWOK != nil && p.KWOK != nil {
		return p.KWOK, nil
	}
	return nil, fmt.Errorf("pool %s: %w", pool.Name, ErrNoProvider)
}

// List implements Provider for whichever provider pool has.
func (p Providers) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	provider, err := p.For(pool)
	if err != nil {
		return Listing{}, err
	}
	return provider.List(ctx, pool)
}

// Template implements Provider for whichever provider pool has.
func (p Providers) Template(pool *v1alpha1.GPUNodePool) (plan.Template, error) {
	provider, err := p.For(pool)
	if err != nil {
		return plan.Template{}, err
	}
	return provider.Template(pool)
}

// SetSize implements Provider for whichever provider pool has.
func (p Providers) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	provider, err := p.For(pool)
	if err != nil {
		return err
	}
	return provider.SetSize(ctx, pool, size)
}

// Delete implements Provider for whichever provider pool has.
func (p Providers) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) error {
	provider, err := p.For(pool)
	if err != nil {
		return err
	}
	return provider.Delete(ctx, pool, nodes)
}
