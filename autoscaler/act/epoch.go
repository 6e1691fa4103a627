package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// ErrDeposed is returned for a write of a replica that no longer leads. The
// outcome of its action is Refused.
var ErrDeposed = fmt.Errorf("%w: this replica no longer leads", errRefused)

// Epoch is one replica's term as leader. Leader election alone does not stop a
// replica that was suspended: it resumes its writes before it notices that another
// replica leads. So every write first checks the lease, and the state that every
// reconcile persists carries the epoch under compare-and-swap.
//
// One race remains: a write that has passed the check and is in flight when another
// replica takes over. It succeeds only where the object is unchanged: nodes, pools,
// targets and configs are written with their resourceVersion, pods are evicted and
// machines are deleted with their UID. An AWS Auto Scaling group and an external gRPC
// provider have no such precondition.
//
// It is safe for concurrent use.
type Epoch struct {
	// Holder is this replica's identity in the lease.
	Holder string
	// Lease of the leader election; empty without one: then only the epochs in the
	// pools' statuses are checked.
	Lease client.ObjectKey
	// Live reads from the API server, never from a cache.
	Live client.Reader
	Now  func() time.Time
	Log  *slog.Logger

	mu      sync.Mutex
	term    int64 // 0: not begun
	changes int32 // the lease's transitions when the epoch began
	deposed error // nil until another leader is observed
}

// Begin starts the epoch after the latest recorded term. The lease's transitions
// alone do not suffice: their count restarts when the lease is deleted.
func (e *Epoch) Begin(ctx context.Context, latest int64) error {
	changes, err := e.transitions(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = changes
	e.term = max(int64(e.changes), latest+1)
	e.Log.Info("leading", "term", e.term, "holder", e.Holder)
	return nil
}

// Stamp is the epoch as it is written to a pool's status.
func (e *Epoch) Stamp() *v1alpha1.Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &v1alpha1.Epoch{Term: e.term, Holder: e.Holder}
}

// Follows returns nil if this epoch may replace state that was written in epoch last.
func (e *Epoch) Follows(last *v1alpha1.Epoch) error {
	own := e.Stamp()
	if last == nil || last.Term < own.Term || *last == *own {
		return nil
	}
	return e.depose(fmt.Sprintf("%s leads since term %d, ours was %d", last.Holder, last.Term, own.Term))
}

// May returns why a write must not be made: ErrDeposed if this replica no longer leads, and another error where
// that is unknown. It asks the API server.
func (e *Epoch) May(ctx context.Context, write string) (err error) {
	defer func() {
		if errors.Is(err, ErrDeposed) {
			e.Log.Warn("write refused", "write", write, "err", err)
		}
	}()
	e.mu.Lock()
	deposed, changes := e.deposed, e.changes
	e.mu.Unlock()
	if deposed != nil {
		return deposed
	}
	now, err := e.transitions(ctx)
	if err == nil && now != changes {
		err = e.depose(fmt.Sprintf("the lease has had %d transitions since", now-changes))
	}
	return err
}

// transitions returns the number of transitions of the lease; 0 without leader election. It returns an error if this
// replica does not hold the lease.
func (e *Epoch) transitions(ctx context.Context) (int32, error) {
	if e.Lease.Name == "" {
		return 0, nil
	}
	var lease coordinationv1.Lease
	if err := e.Live.Get(ctx, e.Lease, &lease); err != nil {
		return 0, fmt.Errorf("checking leadership: getting lease %s: %w", e.Lease, err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != e.Holder {
		return 0, e.depose(fmt.Sprintf("lease %s is held by %q", e.Lease, holder))
	}
	// Both times are of this machine's clock: the lease holder writes them.
	if renewed := lease.Spec.RenewTime; renewed != nil {
		end := renewed.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
		if late := e.Now().Sub(end); late > 0 {
			return 0, fmt.Errorf("%w: lease %s expired %s ago", ErrDeposed, e.Lease, late.Round(time.Millisecond))
		}
	}
	return ptr.Deref(lease.Spec.LeaseTransitions, 0), nil
}

// depose ends the epoch for good: another one has begun.
func (e *Epoch) depose(why string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deposed == nil {
		e.deposed = fmt.Errorf("%w: %s", ErrDeposed, why)
	}
	return e.deposed
}

// Fence returns a copy of a client's configuration with which each request that may write first
// checks e with the API server, and fails with ErrDeposed once e has ended. Reads pass. Without an
// epoch it returns rc. An eviction that is refused for now returns at once: the next reconcile tries it again.
func Fence(rc *rest.Config, e *Epoch) *rest.Config {
	if e == nil {
		return rc
	}
	rc = rest.CopyConfig(rc)
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{next, e} })
	return rc
}

type fenced struct {
	next  http.RoundTripper
	epoch *Epoch
}

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := f.epoch.May(r.Context(), r.Method+" "+r.URL.Path); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as http.RoundTripper requires; it was not sent
			}
			return nil, err
		}
	}
	answer, err := f.next.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/eviction") {
		// It is 10 s for a budget that its controller has not seen (registry/core/pod/storage, v1.37). client-go would
		// wait that long, ten times. All other evictions would wait too, from a node that may have two minutes left.
		answer.Header.Del("Retry-After")
	}
	return answer, err
}
