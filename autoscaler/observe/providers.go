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

// membersOf returns the Node objects of each pool.
func membersOf(nodes []corev1.Node) map[string][]*corev1.Node {
	out := map[string][]*corev1.Node{}
	for i := range nodes {
		if pool := nodes[i].Labels[v1alpha1.NodePoolLabel]; pool != "" {
			out[pool] = append(out[pool], &nodes[i])
		}
	}
	return out
}

// listed is a provider's answer about one pool.
type listed struct {
	pools.Listing
	err error
}

// maxListing bounds the concurrent calls of providers.
const maxListing = 16

// list calls the providers of all pools concurrently: a reconcile waits for the slowest, not for
// the sum.
func (o *Observer) list(ctx context.Context, all []v1alpha1.GPUNodePool) []listed {
	out := make([]listed, len(all))
	var asking sync.WaitGroup
	free := make(chan struct{}, maxListing)
	for i := range all {
		if all[i].DeletionTimestamp != nil {
			out[i].err = errors.New("the pool is being deleted")
			continue
		}
		if all[i].Undecodable != "" {
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

// learn adds a pool's history to it: how long its nodes take to come up, and its backoff after
// failures.
func (o *Observer) learn(out *plan.Pool, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) pools.Learned {
	l := o.o.Pools.Learn(pool, out.Target, nodes)
	if l.ReadyAfter > 0 {
		out.ReadyAfter = l.ReadyAfter
	}
	out.BackoffUntil = l.BackoffUntil
	return l
}

// providerState is a provider's answer about a pool in this reconcile, without the size.
type providerState struct {
	unnamed bool // the provider cannot remove a node by name
	// leaving are the nodes with an interruption notice, by the last part of their providerID, and
	// when the provider removes them; zero where it only might.
	leaving map[string]time.Time
	going   map[string]bool // nodes that are removed already, by the same key
}

// apply records a provider's answer besides the size: the spot price where the pool sets none,
// whether nodes can be removed by name, and which nodes are leaving or gone.
func (o *Observer) apply(out *plan.Pool, pool *v1alpha1.GPUNodePool, l pools.Listing) {
	if pool.Spec.PricePerHour == nil && l.SpotPrice != nil {
		out.PricePerHour = *l.SpotPrice
	}
	s := providerState{unnamed: l.Unnamed, leaving: map[string]time.Time{}, going: map[string]bool{}}
	for _, leaving := range l.Leaving {
		s.leaving[leaving.Instance] = takenAt(leaving)
	}
	for _, part := range l.Going {
		s.going[part] = true
	}
	o.providers[pool.Name] = s
}

// noticed reports whether the node has an interruption notice. No new pod belongs there, so the
// node counts as cordoned by others.
func (o *Observer) noticed(n *corev1.Node) bool {
	_, noticed := o.providers[n.Labels[v1alpha1.NodePoolLabel]].leaving[pools.LastPart(n.Spec.ProviderID)]
	return noticed && n.Spec.ProviderID != ""
}

// going reports whether the node is removed and only its Node object is left. The pool's target
// does not count it any more, so neither may its size: else the next scale-up would add one node
// too many.
func (o *Observer) going(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && o.providers[n.Labels[v1alpha1.NodePoolLabel]].going[pools.LastPart(n.Spec.ProviderID)]
}
