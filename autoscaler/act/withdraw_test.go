package act

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// short is a provider that has delivered less than requested.
type short struct {
	pools.Provider
	target, withdrawn int
}

func (s *short) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: s.target}, nil
}

func (s *short) Withdraw(context.Context, *v1alpha1.GPUNodePool) error {
	s.withdrawn++
	return nil
}

// TestWithdrawal: a target that is not met is withdrawn, unless the pool has changed since, and at
// most once a minute.
func TestWithdrawal(t *testing.T) {
	provider := &short{target: 4}
	w := newWorld(t, func(o *Options) { o.Pools = provider })
	action := plan.Action{Verb: plan.Withdraw, Pool: "p", From: 4, To: 1, Reason: plan.NotDelivered}
	w.want(Done, action)
	w.want(Refused, action)
	w.snap.Now = w.snap.Now.Add(withdrawEvery)
	w.want(Done, action)
	w.snap.Now = w.snap.Now.Add(withdrawEvery)
	provider.target = 6 // requested since
	w.want(Refused, action)
	w.snap.Now = w.snap.Now.Add(withdrawEvery)
	provider.target = 1 // delivered since
	w.want(Refused, plan.Action{Verb: plan.Withdraw, Pool: "p", From: 1, To: 1})
	if provider.withdrawn != 2 {
		t.Errorf("withdrawn %d times, want 2", provider.withdrawn)
	}
	w.actor.o.Pools = struct{ pools.Provider }{provider}
	provider.target, w.snap.Now = 4, w.snap.Now.Add(withdrawEvery)
	w.want(Refused, action)
}

// hanging is a provider that does not answer; its calls end after ten seconds, as an ASG's.
type hanging struct {
	short
	calls int
}

func (h *hanging) SetSize(ctx context.Context, _ *v1alpha1.GPUNodePool, _ int) error {
	h.calls++
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	<-ctx.Done()
	return fmt.Errorf("calling AWS: %w", ctx.Err())
}

// TestActingIsBounded: providers that hang delay the next reconcile for a bounded time, and what was
// not tried is refused, not failed.
func TestActingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &hanging{short: short{target: 1}}
		w := newWorld(t, func(o *Options) { o.Pools = provider })
		var actions []plan.Action
		for range 6 {
			actions = append(actions, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2})
		}
		began := time.Now()
		results := w.actor.Apply(t.Context(), w.snap, plan.Plan{Actions: actions})
		if took := time.Since(began); took > maxActing {
			t.Errorf("the actions took %s, want at most %s", took, maxActing)
		}
		if provider.calls != 3 || results[1].Outcome != Failed || results[5].Outcome != Refused || !errors.Is(results[5].Err, errRefused) {
			t.Errorf("%d calls, results %+v", provider.calls, results)
		}
	})
}
