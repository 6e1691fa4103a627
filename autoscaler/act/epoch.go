package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// ErrDeposed is returned for a write of a replica that no longer leads. The
// outcome of its action is Refused.
var ErrDeposed = fmt.Errorf("%w: this replica no longer leads", errRefused)

// EpochOptions of an Epoch.
type EpochOptions struct {
	// Holder is this replica's identity in the lease.
	Holder string
	// Lease that is held; empty where none is, which leaves only what the pools'
	// statuses say.
	Lease client.ObjectKey
	// Live reads from the API server, never from a cache.
	Live client.Reader
	// Now is the clock, nil for time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Epoch is one replica's turn at leading. Leader election alone lets a replica
// that was stopped for a while go on with what it was about to write: it hears
// too late that another leads. So every write of ours asks first, and the memory
// that every round writes carries the epoch, compared and swapped.
//
// What is left: a write that passed the question and is still on its way when
// another replica takes over. It lands only where the object is as it was read,
// since nodes, pools, targets and configs are written under their
// resourceVersion; pods go under their UID, and nodes are made under names that
// are taken once. An AWS group has nothing of the kind.
//
// It is safe for concurrent use.
type Epoch struct {
	o EpochOptions

	mu      sync.Mutex
	term    int64 // 0: not begun
	turns   int32 // of the lease when it began
	deposed error // nil while we lead, as far as we know
}

// NewEpoch returns an Epoch that has not begun.
func NewEpoch(o EpochOptions) *Epoch {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Epoch{o: o}
}

// Begin starts the epoch after the latest that is known of. The lease's count of
// turns is not enough: it starts over when somebody deletes the lease.
func (e *Epoch) Begin(ctx context.Context, latest int64) error {
	lease, err := e.lease(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turns = turnsOf(lease)
	e.term = max(int64(e.turns), latest+1)
	e.o.Log.Info("leading", "term", e.term, "holder", e.o.Holder)
	return nil
}

// Stamp is the epoch as it stands in a pool's memory.
func (e *Epoch) Stamp() *v1alpha1.Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &v1alpha1.Epoch{Term: e.term, Holder: e.o.Holder}
}

// Follows is nil where memory that was written in epoch last is ours to replace.
func (e *Epoch) Follows(last *v1alpha1.Epoch) error {
	own := e.Stamp()
	if last == nil || last.Term < own.Term || *last == *own {
		return nil
	}
	return e.depose(fmt.Sprintf("%s leads since term %d, ours was %d", last.Holder, last.Term, own.Term))
}

// Check asks the API server whether this replica leads. An error other than
// ErrDeposed means that nobody can tell.
func (e *Epoch) Check(ctx context.Context) error {
	e.mu.Lock()
	deposed, turns := e.deposed, e.turns
	e.mu.Unlock()
	if deposed != nil {
		return deposed
	}
	lease, err := e.lease(ctx)
	if err != nil {
		return err
	}
	if lease != nil && turnsOf(lease) != turns {
		return e.depose(fmt.Sprintf("the lease has changed hands %d times since", turnsOf(lease)-turns))
	}
	return nil
}

// lease is the one that is held, nil where there is none to hold.
func (e *Epoch) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	if e.o.Lease.Name == "" {
		return nil, nil
	}
	var lease coordinationv1.Lease
	if err := e.o.Live.Get(ctx, e.o.Lease, &lease); err != nil {
		return nil, fmt.Errorf("asking who leads: getting lease %s: %w", e.o.Lease, err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != e.o.Holder {
		return nil, e.depose(fmt.Sprintf("lease %s is held by %q", e.o.Lease, holder))
	}
	// Both times are of this machine's clock: the holder writes them.
	if renewed := lease.Spec.RenewTime; renewed != nil {
		end := renewed.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
		if late := e.o.Now().Sub(end); late > 0 {
			return nil, fmt.Errorf("%w: lease %s ran out %s ago", ErrDeposed, e.o.Lease, late.Round(time.Millisecond))
		}
	}
	return &lease, nil
}

func turnsOf(lease *coordinationv1.Lease) int32 {
	if lease == nil {
		return 0
	}
	return ptr.Deref(lease.Spec.LeaseTransitions, 0)
}

// depose ends the epoch: another one has begun, and ours never comes back.
func (e *Epoch) depose(why string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deposed == nil {
		e.deposed = fmt.Errorf("%w: %s", ErrDeposed, why)
	}
	return e.deposed
}

// refused reports a write that was not done, once for each.
func (e *Epoch) refused(err error, what string) error {
	if errors.Is(err, ErrDeposed) {
		e.o.Log.Warn("write refused", "write", what, "err", err)
	}
	return err
}
