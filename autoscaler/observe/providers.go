package observe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
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

// interruptedAfter is the time between EC2's spot notice and the interruption.
const interruptedAfter = 2 * time.Minute

// notice reports whether the node has a notice of its provider. No new pod belongs there, so the node
// counts as cordoned by others. at is when the provider removes the node, zero where it only might.
func (o *Observer) notice(n *corev1.Node) (at time.Time, noticed bool) {
	if n.Spec.ProviderID == "" {
		return time.Time{}, false
	}
	part := pools.LastPart(n.Spec.ProviderID)
	for _, l := range o.listings[n.Labels[v1alpha1.NodePoolLabel]].Leaving {
		switch {
		case l.Instance != part:
		case l.Kind == pools.Interruption:
			return l.At.Add(interruptedAfter), true
		default:
			return time.Time{}, true
		}
	}
	return time.Time{}, false
}

// going reports whether the node is removed and only its Node object is left. The pool's target
// does not count it any more, so neither may its size: else the next scale-up would add one node
// too many.
func (o *Observer) going(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && slices.Contains(o.listings[n.Labels[v1alpha1.NodePoolLabel]].Going, pools.LastPart(n.Spec.ProviderID))
}
