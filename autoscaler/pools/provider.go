package pools

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Provider makes and removes nodes. Except for List, its methods are not called concurrently.
type Provider interface {
	// List returns the provider's state of the pool. It may be some seconds old. It is called concurrently
	// for several pools.
	List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error)
	// SetSize scales up to a size; it removes no node. from is the size on which the decision was made. If the pool is
	// smaller by now the error is ErrStale: more nodes would be added than were decided.
	SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, from, to int) error
	// Delete removes exactly this node. It is an error if the node is gone or was changed since it was read, and
	// ErrStale if the size would be below spec.min. With replace the size stays, so that the provider makes another
	// node, in one step where it can. In a pool above spec.max the node is removed without a replacement.
	Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, replace bool) error
	// Withdraw takes back a request that is not met: it lowers the size by the machines that have no node. It removes
	// no node. The error is ErrStale if the size is not from, on which the decision was made.
	Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool, from int) error
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
	// Counted are the machines that Target counts, by the last part of their providerID; nil where the provider does not
	// list all of them. A node of any other machine is not of the pool.
	Counted []string
	// Failed are the requested machines that the provider could not make, FailedWhy its reason.
	Failed    int
	FailedWhy string
	// SpotPrice of one node an hour; nil if unknown.
	SpotPrice *float64
	// Notices of the provider about nodes.
	Notices []Notice
	// StartupTaints are those that the provider gives a new node, beside the pool's own.
	StartupTaints []v1alpha1.Taint
	// described is a node as the provider describes it, for Template; nil if it does not.
	described *corev1.Node
}

// Providers dispatches to the provider of a pool. Each may be nil.
type Providers struct {
	Scale, ASG, GRPC Provider
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

// For returns the provider of pool. A fixed pool has none: the planner requests and removes no nodes of it.
func (p Providers) For(pool *v1alpha1.GPUNodePool) (Provider, error) {
	switch spec := pool.Spec.Provider; {
	case spec.Scale != nil && p.Scale != nil:
		return p.Scale, nil
	case spec.ASG != nil && p.ASG != nil:
		return p.ASG, nil
	case spec.ExternalGRPC != nil && p.GRPC != nil:
		return p.GRPC, nil
	}
	return nil, fmt.Errorf("pool %s: %w", pool.Name, ErrNoProvider)
}

// List implements Provider. The size of a fixed pool is the number of its nodes, which no provider knows.
func (p Providers) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	if pool.Spec.Provider.Fixed != nil {
		return Listing{}, nil
	}
	provider, err := p.For(pool)
	if err != nil {
		return Listing{}, err
	}
	return provider.List(ctx, pool)
}

// SetSize implements Provider.
func (p Providers) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, from, to int) error {
	provider, err := p.writer(ctx, pool, fmt.Sprintf("set size %d", to))
	if err != nil {
		return err
	}
	err = provider.SetSize(ctx, pool, from, to)
	if p.History != nil && !passing(ctx, err) {
		p.History.Asked(pool, err)
	}
	return err
}

// Delete implements Provider.
func (p Providers) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, replace bool) error {
	provider, err := p.writer(ctx, pool, "delete node "+node.Name)
	if err != nil {
		return err
	}
	if err := provider.Delete(ctx, pool, node, replace); err != nil {
		return fmt.Errorf("removing node %s: %w", node.Name, err)
	}
	return nil
}

// Withdraw implements Provider. The History counts a failure, also where the request cannot be taken back.
func (p Providers) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool, from int) error {
	provider, err := p.writer(ctx, pool, "withdraw the request")
	if err != nil {
		return err
	}
	err = provider.Withdraw(ctx, pool, from)
	if p.History != nil && !errors.Is(err, ErrStale) {
		p.History.Withdrawn(pool)
	}
	if err != nil {
		return fmt.Errorf("withdrawing the request of pool %s: %w", pool.Name, err)
	}
	return nil
}

// passing reports whether an error is no evidence against the provider: a conflicting write, or the
// end of the process.
func passing(ctx context.Context, err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, ErrBusy) || errors.Is(err, ErrStale) || ctx.Err() != nil
}

// unanswered reports an error of the API server itself: it was busy, it failed, or its answer was lost. The request may
// have succeeded; the next reconcile sees whether it did. A backoff of the pool would only cost time. Only errors that
// go on count, for example while a webhook of the target is down.
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

// Reasons of a pool's condition for which no action is taken on it.
const (
	ReasonNoTarget = "TargetNotFound"
	ReasonTarget   = "TargetInvalid"
	ReasonShared   = "TargetShared"
	ReasonForeign  = "ForeignAutoscaler"
)

// Problem is an error that persists until a user changes something. The pool is not acted on;
// others are.
type Problem struct {
	// Reason is the condition's reason.
	Reason string
	// Field of the GPUNodePool that the problem is about.
	Field string
	// What is wrong, and what to do about it.
	What, Remedy string
}

// Error returns all of it in one line.
func (p *Problem) Error() string {
	return fmt.Sprintf("%s: %s; %s", p.Field, p.What, p.Remedy)
}

// ReasonOf returns the condition's reason for err, "Invalid" for other errors than a Problem.
func ReasonOf(err error) string {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p.Reason
	}
	return "Invalid"
}

// ErrBusy means that the provider has not finished an earlier request; the next reconcile tries
// again.
var ErrBusy = errors.New("the provider is busy")

// ErrStale means that the pool's size is not the one on which the decision was made; the next reconcile decides again.
var ErrStale = errors.New("the size has changed since it was read")

func stale(size, from int) error { return fmt.Errorf("%w: it is %d, not %d", ErrStale, size, from) }

// grows reports whether a size is still to be raised.
func grows(size, from, to int) (bool, error) {
	if size < from {
		return false, stale(size, from)
	}
	return size < to, nil
}

// shrinks returns ErrStale unless size is more than least: the decision to remove a node was made on a larger size.
func shrinks(size, least int) error {
	if size > least {
		return nil
	}
	return fmt.Errorf("%w: it is %d, and %d nodes have to stay", ErrStale, size, least)
}

// ErrUnnamed means that the provider cannot remove a particular node. Lowering its size instead
// would remove an arbitrary one.
var ErrUnnamed = errors.New("the provider cannot remove a node by name")

// sameNode rejects a node that is not of the pool, or was replaced or changed since it was read: the
// decision was made on another state.
func sameNode(ctx context.Context, live client.Reader, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return fmt.Errorf("it does not belong to pool %s", pool.Name)
	}
	var now corev1.Node
	if err := live.Get(ctx, client.ObjectKey{Name: node.Name}, &now); err != nil {
		return fmt.Errorf("getting it: %w", err)
	}
	nodes := schema.GroupResource{Resource: "nodes"}
	switch {
	case now.UID != node.UID:
		return apierrors.NewConflict(nodes, node.Name, fmt.Errorf("a new node has this name, with another UID"))
	case now.Spec.ProviderID != node.Spec.ProviderID:
		return apierrors.NewConflict(nodes, node.Name, fmt.Errorf("its providerID has changed from %q to %q", node.Spec.ProviderID, now.Spec.ProviderID))
	case now.ResourceVersion != node.ResourceVersion:
		return apierrors.NewConflict(nodes, node.Name, fmt.Errorf("it was changed since it was read"))
	}
	return nil
}

// memo caches the answers of List, failures included. After failures, calls become rarer: the
// provider may be throttling or slow to fail.
type memo struct {
	every time.Duration
	now   func() time.Time

	mu      sync.Mutex
	answers map[string]remembered
}

// maxRetry is the longest pause after a failure.
const maxRetry = time.Minute

type remembered struct {
	at         time.Time
	uid        types.UID // of the pool: one created again under the name may have another target
	generation int64
	listing    Listing
	err        error
	failures   int // in a row
}

// fresh reports whether the answer can be used. After a failure the pause doubles, from two seconds
// on. A Problem with the target is read again at the normal interval, so that a fix is noticed.
func (r *remembered) fresh(pool *v1alpha1.GPUNodePool, now time.Time, every time.Duration) bool {
	if p := (*Problem)(nil); r.err != nil && !errors.As(r.err, &p) {
		every = min(time.Second<<min(r.failures, 10), maxRetry)
	}
	return r.uid == pool.UID && r.generation == pool.Generation && now.Sub(r.at) < every
}

func newMemo(every time.Duration, now func() time.Time) *memo {
	return &memo{every: every, now: now, answers: map[string]remembered{}}
}

// get calls ask if the last answer is too old, or of another generation of the pool.
func (m *memo) get(ctx context.Context, pool *v1alpha1.GPUNodePool, ask func() (Listing, error)) (Listing, error) {
	m.mu.Lock()
	last, ok := m.answers[pool.Name]
	m.mu.Unlock()
	if ok && last.fresh(pool, m.now(), m.every) {
		return last.listing, last.err
	}
	l, err := ask()
	if ctx.Err() != nil {
		return l, err // the process is ending
	}
	next := remembered{at: m.now(), uid: pool.UID, generation: pool.Generation, listing: l}
	if err != nil {
		next.listing, next.err, next.failures = Listing{}, err, 1
		if last.generation == pool.Generation {
			next.failures += last.failures
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[pool.Name] = next
	return next.listing, err
}

// forget drops the cached answer.
func (m *memo) forget(pool *v1alpha1.GPUNodePool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.answers[pool.Name]
	last.at = time.Time{}
	m.answers[pool.Name] = last
}
