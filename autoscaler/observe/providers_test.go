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
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// reporting is a PoolReader with a fixed Listing.
type reporting struct {
	pools.Providers
	listing pools.Listing
	learned pools.Learned
}

func (s reporting) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return s.listing, nil
}

func (s reporting) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned { return s.learned }

func TestListing(t *testing.T) {
	p := pool("p")
	p.Spec.PricePerHour = nil
	w := newWorld(t, p)
	for name, id := range map[string]string{"p-1": "aws:///eu-west-1a/i-1", "p-2": "aws:///eu-west-1a/i-2", "p-3": "aws:///eu-west-1a/i-3", "p-4": ""} {
		n := node(name, halves(2))
		n.Spec.ProviderID = id
		if err := w.client.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	for _, got := range w.at(0).Nodes {
		if got.Cordoned || got.NoScaleDown {
			t.Fatalf("%+v", got)
		}
	}
	until := start.Add(time.Hour)
	w.o.o.Pools = reporting{
		Providers: w.o.o.Pools.(pools.Providers),
		listing: pools.Listing{Target: 4, Unnamed: true, SpotPrice: ptr.To(24.5), Leaving: []pools.Leaving{
			{Instance: "i-1", Kind: pools.Interruption, At: start}, {Instance: "i-2", Kind: pools.Rebalance, At: start}, {Instance: "", Kind: pools.Interruption, At: start},
		}},
		learned: pools.Learned{ReadyAfter: 7 * time.Minute, Failures: 2, BackoffUntil: until},
	}
	seen := w.at(time.Second)
	if got := seen.Pools[0]; got.PricePerHour != 24.5 || got.ReadyAfter != 7*time.Minute || !got.BackoffUntil.Equal(until) {
		t.Errorf("price %g, ready after %s, backoff until %s", got.PricePerHour, got.ReadyAfter, got.BackoffUntil)
	}
	// An interruption comes two minutes after its notice; a recommendation has no time and cordons
	// the node all the same; a notice without an instance matches no node.
	leaves := map[string]time.Time{"p-1": start.Add(2 * time.Minute)}
	for _, got := range seen.Nodes {
		if cordoned := got.Name == "p-1" || got.Name == "p-2"; got.Cordoned != cordoned || got.CordonedBy != "" || !got.NoScaleDown || !got.LeavesAt.Equal(leaves[got.Name]) {
			t.Errorf("of a pool that is not scaled down: %+v", got)
		}
	}
	fixed := w.o.o.Pools.(reporting)
	fixed.listing = pools.Listing{Target: 3, Going: []string{"i-1"}}
	w.o.o.Pools = fixed
	going := w.at(2 * time.Second)
	if n, p := going.Nodes[0], going.Pools[0]; n.Pool != "" || !n.Cordoned || p.Size != 3 {
		t.Errorf("a removed node is of pool %q, whose size is %d; cordoned %v", n.Pool, p.Size, n.Cordoned)
	}
	if got := seen.Learned["p"].Failures; got != 2 {
		t.Errorf("%d failures", got)
	}
}

// together is a provider whose calls return only once all of them have been made.
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
	case <-time.After(5 * time.Minute):
		return pools.Listing{}, errors.New("no other call was made")
	}
}

// TestProvidersAreListedConcurrently: a reconcile waits for the slowest provider, not for one after
// another.
func TestProvidersAreListedConcurrently(t *testing.T) {
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
	w.o.o.Pools = reporting{Providers: pools.Providers{GRPC: nodegroups.New(w.client, w.client, nil), ASG: pools.NewASG(pools.ASGOptions{})}, listing: pools.Listing{Target: 1}}
	seen := w.at(0)
	if pools.ReasonOf(seen.Invalid["b"]) != pools.ReasonShared || seen.Invalid["a"] != nil || seen.Invalid["p"] != nil {
		t.Errorf("%v", seen.Invalid)
	}
	if len(seen.Pools) != 2 {
		t.Errorf("%d valid pools, want 2", len(seen.Pools))
	}
}
