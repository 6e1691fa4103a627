package pools

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Provider makes and removes nodes. Except for List, its methods are not called concurrently.
type Provider interface {
	// List returns the provider's state of the pool. It may read a cache. It is called concurrently
	// for several pools.
	List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error)
	// SetSize scales up to size nodes; it removes none.
	SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error
	// Delete removes exactly this node. That it is gone or was changed since it was read is an error.
	Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error
}

// Listing is a provider's state of a pool.
type Listing struct {
	// Target is the last requested size.
	Target int
	// Unnamed: the provider cannot remove a node by name, so none is removed.
	Unnamed bool
	// Going are removed nodes whose Node objects still exist, by the last part of their providerID.
	// Target does not count them.
	Going []string
	// SpotPrice of one node an hour; nil if unknown.
	SpotPrice *float64
	// Leaving are nodes with a notice of the provider.
	Leaving []Leaving
	// nodes are what the provider says of the pool's nodes, for Template.
	nodes nodeFacts
}

// Providers dispatches to the provider of a pool. Each may be nil.
type Providers struct {
	Scale, ASG, GRPC, Fixed Provider
	// History, if set, records requests and their results.
	History *History
	// May, if set, returns why a write must not be made now.
	May func(ctx context.Context, write string) error
}

// writer returns the provider of pool for a write.
func (p Providers) writer(ctx context.Context, pool *v1alpha1.GPUNodePool, write string) (Provider, error) {
	if p.May != nil {
		if err := p.May(ctx, write+" of pool "+pool.Name); err != nil {
			return nil, err
		}
	}
	return p.For(pool)
}

// ErrNoProvider is returned for a pool whose provider block is empty or not supported by this
// process.
var ErrNoProvider = errors.New("no provider")

// For returns the provider of pool.
func (p Providers) For(pool *v1alpha1.GPUNodePool) (Provider, error) {
	switch spec := pool.Spec.Provider; {
	case spec.Scale != nil && p.Scale != nil:
		return p.Scale, nil
	case spec.ASG != nil && p.ASG != nil:
		return p.ASG, nil
	case spec.ExternalGRPC != nil && p.GRPC != nil:
		return p.GRPC, nil
	case spec.Fixed != nil && p.Fixed != nil:
		return p.Fixed, nil
	}
	return nil, fmt.Errorf("pool %s: %w", pool.Name, ErrNoProvider)
}

// List implements Provider.
func (p Providers) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	provider, err := p.For(pool)
	if err != nil {
		return Listing{}, err
	}
	return provider.List(ctx, pool)
}

// SetSize implements Provider.
func (p Providers) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	provider, err := p.writer(ctx, pool, fmt.Sprintf("set size %d", size))
	if err != nil {
		return err
	}
	err = provider.SetSize(ctx, pool, size)
	if p.History != nil && !passing(ctx, err) && (pool.Spec.Provider.ASG != nil || !unanswered(err)) {
		p.History.Asked(pool, size, err)
	}
	return err
}

// Delete implements Provider.
func (p Providers) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	provider, err := p.writer(ctx, pool, "delete node "+node.Name)
	if err != nil {
		return err
	}
	if err := provider.Delete(ctx, pool, node); err != nil {
		return fmt.Errorf("removing node %s: %w", node.Name, err)
	}
	return nil
}

// passing reports whether an error is no evidence against the provider: a conflicting write, a
// fixed pool, or the end of the process.
func passing(ctx context.Context, err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, ErrBusy) || errors.Is(err, ErrFixed) || ctx.Err() != nil
}

// unanswered reports an error of the API server itself: it was busy, failed, or its answer was
// lost. The request may have succeeded, and the next reconcile sees whether it did; a backoff of
// the pool would only cost time.
func unanswered(err error) bool {
	var lost *url.Error
	return errors.As(err, &lost) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}

// Learn records the pool's nodes in the History, and returns its results; zero without a History
// and for a fixed pool, which requests no nodes.
func (p Providers) Learn(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) Learned {
	if p.History == nil || pool.Spec.Provider.Fixed != nil {
		return Learned{}
	}
	return p.History.Seen(pool, target, nodes)
}
