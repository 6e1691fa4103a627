package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// membersOf are the Node objects of each pool.
func membersOf(nodes []corev1.Node) map[string][]*corev1.Node {
	out := map[string][]*corev1.Node{}
	for i := range nodes {
		if pool := nodes[i].Labels[v1alpha1.NodePoolLabel]; pool != "" {
			out[pool] = append(out[pool], &nodes[i])
		}
	}
	return out
}

// listed is what a provider answers about one pool.
type listed struct {
	pools.Listing
	err error
}

// maxListing is how many providers are asked at a time.
const maxListing = 16

// list asks the providers of all pools, beside each other: a round waits for the
// slowest and not for all of them one after another.
func (o *Observer) list(ctx context.Context, all []v1alpha1.GPUNodePool) []listed {
	out := make([]listed, len(all))
	var asking sync.WaitGroup
	free := make(chan struct{}, maxListing)
	for i := range all {
		if all[i].DeletionTimestamp != nil {
			out[i].err = errors.New("the pool is being deleted")
			continue
		}
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			out[i].Listing, out[i].err = o.o.Pools.List(ctx, &all[i])
		})
	}
	asking.Wait()
	return out
}

// learn adds to a pool what its past says: how long its nodes take, and for how
// long it is left alone after failures.
func (o *Observer) learn(out *plan.Pool, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) pools.Learned {
	l := o.o.Pools.Learn(pool, out.Target, nodes)
	if l.ReadyAfter > 0 {
		out.ReadyAfter = l.ReadyAfter
	}
	out.BackoffUntil = l.BackoffUntil
	return l
}

// said is what a provider said about a pool this round, besides its size.
type said struct {
	unnamed bool // no certain node can be taken away
	// leaving are nodes that it gave notice of, by the end of their providerID: when
	// it takes them, zero where it only might.
	leaving map[string]time.Time
	going   map[string]bool // nodes that were taken away, likewise
}

// heed takes up what a provider says besides its size: a spot price, where the
// pool names none, whether a node can be taken away by name, and which nodes are
// about to go or going.
func (o *Observer) heed(out *plan.Pool, pool *v1alpha1.GPUNodePool, l pools.Listing) {
	if pool.Spec.PricePerHour == nil && l.SpotPrice != nil {
		out.PricePerHour = *l.SpotPrice
	}
	s := said{unnamed: l.Unnamed, leaving: map[string]time.Time{}, going: map[string]bool{}}
	for _, leaving := range l.Leaving {
		s.leaving[leaving.Instance] = takenAt(leaving)
	}
	for _, part := range l.Going {
		s.going[part] = true
	}
	o.said[pool.Name] = s
}

// noticed reports whether the node's provider has given notice that it goes.
// Nothing new belongs there, so it counts as cordoned by somebody else.
func (o *Observer) noticed(n *corev1.Node) bool {
	_, noticed := o.said[n.Labels[v1alpha1.NodePoolLabel]].leaving[pools.LastPart(n.Spec.ProviderID)]
	return noticed && n.Spec.ProviderID != ""
}

// going reports whether the node was taken away and only its Node object is left.
// The pool's target does not count it any more, so neither may its size: else the
// pool would look one too large, and what is bought next would be one too many.
func (o *Observer) going(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && o.said[n.Labels[v1alpha1.NodePoolLabel]].going[pools.LastPart(n.Spec.ProviderID)]
}
