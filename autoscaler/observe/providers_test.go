package observe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// saying is a PoolReader that says more than a size.
type saying struct {
	pools.Providers
	listing pools.Listing
	learned pools.Learned
}

func (s saying) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return s.listing, nil
}

func (s saying) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned { return s.learned }

func TestWhatAProviderSaysIsHeeded(t *testing.T) {
	p, n := pool("p"), node("p-1", halves(2))
	p.Spec.PricePerHour = nil
	n.Spec.ProviderID = "aws:///eu-west-1a/i-0123456789abcdef0"
	w := newWorld(t, p, n)
	quiet := w.at(0)
	if got := quiet.Nodes[0]; got.Cordoned || got.NoScaleDown {
		t.Fatalf("%+v", got)
	}
	until := start.Add(time.Hour)
	w.o.o.Pools = saying{
		Providers: w.o.o.Pools.(pools.Providers),
		listing: pools.Listing{Target: 1, Unnamed: true, SpotPrice: ptr.To(24.5), Leaving: []pools.Leaving{
			{Instance: "i-0123456789abcdef0", Kind: pools.Interruption, At: start},
		}},
		learned: pools.Learned{ReadyAfter: 7 * time.Minute, Failures: 2, BackoffUntil: until},
	}
	seen := w.at(time.Second)
	if got := seen.Pools[0]; got.PricePerHour != 24.5 || got.ReadyAfter != 7*time.Minute || !got.BackoffUntil.Equal(until) {
		t.Errorf("price %g, ready after %s, backoff until %s", got.PricePerHour, got.ReadyAfter, got.BackoffUntil)
	}
	if got := seen.Nodes[0]; !got.Cordoned || got.CordonedBy != "" || !got.NoScaleDown {
		t.Errorf("a node that is about to go, of a pool that gives none back: %+v", got)
	}
	said := w.o.o.Pools.(saying)
	said.listing = pools.Listing{Target: 0, Going: []string{"i-0123456789abcdef0"}}
	w.o.o.Pools = said
	going := w.at(2 * time.Second)
	if n, p := going.Nodes[0], going.Pools[0]; n.Pool != "" || !n.Cordoned || p.Size != 0 {
		t.Errorf("a node that was taken away is of pool %q, whose size is %d; cordoned %v", n.Pool, p.Size, n.Cordoned)
	}
	if got := seen.Learned["p"].Failures; got != 2 {
		t.Errorf("%d failures", got)
	}
}

// together is a provider that answers nobody before all of them have asked.
type together struct {
	pools.Providers
	missing atomic.Int32
	all     chan struct{}
}

func (p *together) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	if p.missing.Add(-1) == 0 {
		close(p.all)
	}
	select {
	case <-p.all:
		return p.Providers.List(ctx, pool)
	case <-time.After(10 * time.Second):
		return pools.Listing{}, errors.New("nobody else has been asked")
	}
}

// TestProvidersAreAskedTogether: a round waits for the slowest provider, not for one
// after another.
func TestProvidersAreAskedTogether(t *testing.T) {
	w := newWorld(t, pool("a"), pool("b"), pool("c"))
	slow := &together{Providers: w.o.o.Pools.(pools.Providers), all: make(chan struct{})}
	slow.missing.Store(3)
	w.o.o.Pools = slow
	if seen := w.at(0); len(seen.Pools) != 3 {
		t.Errorf("%d pools, want 3: %v", len(seen.Pools), seen.Invalid)
	}
}

func TestPoolsOverTheSameTarget(t *testing.T) {
	a, b, c := pool("a"), pool("b"), pool("p")
	for _, p := range []*v1alpha1.GPUNodePool{a, b} {
		p.Spec.Provider = v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-1"}}
	}
	w := newWorld(t, a, b, c, node("p-1", halves(2)))
	w.o.o.Pools = saying{Providers: pools.Providers{KWOK: pools.NewKWOK(w.client, w.client, nil), ASG: pools.NewASG(pools.ASGOptions{})}, listing: pools.Listing{Target: 1}}
	seen := w.at(0)
	if pools.ReasonOf(seen.Invalid["b"]) != pools.ReasonShared || seen.Invalid["a"] != nil || seen.Invalid["p"] != nil {
		t.Errorf("%v", seen.Invalid)
	}
	if len(seen.Pools) != 2 {
		t.Errorf("%d pools go on, want 2", len(seen.Pools))
	}
}
