package pools

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Provider makes and removes nodes. Its methods are called from one goroutine.
type Provider interface {
	// List returns what the provider knows of the pool. It may read a cache. It is
	// called for several pools at a time.
	List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error)
	// Template returns what a new node will look like; tables are what nodes have
	// published of their cards. It asks nobody.
	Template(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error)
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
	// Unnamed says that no certain node can be taken away, so that none is.
	Unnamed bool
	// Going are nodes that were taken away and whose Node objects are still there,
	// by the last part of their providerID. Target does not count them.
	Going []string
	// SpotPrice of one node an hour; nil where the provider does not say.
	SpotPrice *float64
	// Leaving are nodes about which the provider has given notice.
	Leaving []Leaving
}

// Providers finds the provider of a pool. Each may be nil.
type Providers struct {
	KWOK, Scale, ASG, Fixed Provider
	// History, where it is set, is told what is asked and how that went.
	History *History
}

// ErrNoProvider is returned for a pool whose provider block is empty or not
// served here.
var ErrNoProvider = errors.New("no provider")

// For returns the provider of pool.
func (p Providers) For(pool *v1alpha1.GPUNodePool) (Provider, error) {
	switch spec := pool.Spec.Provider; {
	case spec.KWOK != nil && p.KWOK != nil:
		return p.KWOK, nil
	case spec.Scale != nil && p.Scale != nil:
		return p.Scale, nil
	case spec.ASG != nil && p.ASG != nil:
		return p.ASG, nil
	case spec.Fixed != nil && p.Fixed != nil:
		return p.Fixed, nil
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
func (p Providers) Template(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error) {
	provider, err := p.For(pool)
	if err != nil {
		return plan.Template{}, err
	}
	return provider.Template(pool, tables)
}

// SetSize implements Provider for whichever provider pool has.
func (p Providers) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	provider, err := p.For(pool)
	if err != nil {
		return err
	}
	err = provider.SetSize(ctx, pool, size)
	if p.History != nil && !passing(ctx, err) && (pool.Spec.Provider.ASG != nil || !unanswered(err)) {
		p.History.Asked(pool, size, err)
	}
	return err
}

// Delete implements Provider for whichever provider pool has.
func (p Providers) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) error {
	provider, err := p.For(pool)
	if err != nil {
		return err
	}
	return provider.Delete(ctx, pool, nodes)
}

// passing reports whether an error says nothing about how well the provider
// delivers: somebody else wrote first, nobody is to deliver, or we are ending.
func passing(ctx context.Context, err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, ErrBusy) || errors.Is(err, ErrFixed) || ctx.Err() != nil
}

// unanswered reports the API server's own trouble: it was busy, failed, or the
// answer never came. What was asked may have been done, and the next round sees
// whether it was; a pool that cannot grow for a minute is no answer to that.
func unanswered(err error) bool {
	var lost *url.Error
	return errors.As(err, &lost) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}

// Learn tells the History of the pool's nodes, and returns what it knows; nothing
// without one. Of a fixed pool there is nothing to learn: no node was asked for.
func (p Providers) Learn(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) Learned {
	if p.History == nil || pool.Spec.Provider.Fixed != nil {
		return Learned{}
	}
	return p.History.Seen(pool, target, nodes)
}
