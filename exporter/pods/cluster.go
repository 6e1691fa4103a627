package pods

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const (
	// clusterEvery is how often the API server is asked without a reason.
	clusterEvery = time.Minute
	// clusterRetry is when it is asked once more after a failure or a change.
	clusterRetry = 10 * time.Second
	// clusterPause is the least time between two questions.
	clusterPause = 2 * time.Second
)

// podName names a pod of this node.
type podName struct{ namespace, name string }

// world is what the API server last said; immutable.
type world struct {
	pods    map[podName]*Pod
	byUID   map[string]*Pod // by the UID in cgroup paths
	claims  map[podName][]Claim
	devices map[draName]Device // of the node's ResourceSlices
}

// cluster keeps what the API server says of this node's pods and ResourceSlices.
// It is asked when the kubelet's answer has changed, and every minute; while it
// fails, what it last said stays.
type cluster struct {
	api              *API
	node             string
	podsToo, dra     bool
	annotations      bool
	log              *slog.Logger
	version          string // of the ResourceSlice API; refresh's goroutine only
	now              atomic.Pointer[world]
	wake             chan struct{}
	failed, badNotes error // as last logged; refresh's goroutine only
}

func newCluster(o Options) *cluster {
	c := &cluster{
		api: o.API, node: o.Node, dra: o.DRA, annotations: o.Annotations,
		podsToo: o.Annotations || o.Labels || o.Processes != nil, log: o.Log, wake: make(chan struct{}, 1),
	}
	c.now.Store(&world{})
	return c
}

// asked reports whether there is anything to ask the API server.
func (c *cluster) asked() bool { return c.api != nil && (c.podsToo || c.dra) }

// poke asks for a refresh soon.
func (c *cluster) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run refreshes until ctx ends and calls changed after each success.
func (c *cluster) run(ctx context.Context, changed func()) {
	slow, retry, pause := time.NewTicker(clusterEvery), time.NewTicker(clusterRetry), time.NewTicker(clusterPause)
	defer slow.Stop()
	defer retry.Stop()
	defer pause.Stop()
	again := c.failed != nil
	for {
		var soon <-chan time.Time
		if again {
			soon = retry.C
		}
		woken := false
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			woken = true
		case <-slow.C:
		case <-soon:
		}
		if c.refresh(ctx) {
			changed()
		}
		// From now on: a tick that nobody waited for would come at once.
		retry.Reset(clusterRetry)
		pause.Reset(clusterPause)
		// A scheduler or a DRA driver may write down after the kubelet's answer
		// what became of it.
		again = woken || c.failed != nil
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// refresh asks once. A failure is logged when it begins and when it ends.
func (c *cluster) refresh(ctx context.Context) bool {
	next := *c.now.Load()
	var errs []error
	if c.podsToo {
		if pods, err := c.api.listPods(ctx, c.node); err != nil {
			errs = append(errs, err)
		} else {
			c.learnPods(&next, pods)
		}
	}
	if c.dra {
		if devices, err := c.api.listSlices(ctx, c.node, &c.version); err != nil {
			errs = append(errs, err)
		} else {
			next.devices = devices
		}
	}
	if ctx.Err() != nil {
		return false
	}
	c.now.Store(&next)
	err := errors.Join(errs...)
	switch {
	case err != nil && c.failed == nil:
		c.log.Warn("the API server does not tell about this node; what it last said is kept", "error", err)
	case err == nil && c.failed != nil:
		c.log.Info("the API server tells about this node again")
	}
	c.failed = err
	return true
}

func (c *cluster) learnPods(w *world, pods []Pod) {
	w.pods = make(map[podName]*Pod, len(pods))
	w.byUID = make(map[string]*Pod, len(pods))
	w.claims = map[podName][]Claim{}
	var bad error
	for i := range pods {
		p := &pods[i]
		name := podName{p.Namespace, p.Name}
		w.pods[name], w.byUID[p.cgroupUID()] = p, p
		if !c.annotations || p.Over {
			continue
		}
		claims, err := annotated(p)
		if err != nil && bad == nil {
			bad = err
			if c.badNotes == nil || c.badNotes.Error() != err.Error() {
				c.log.Warn("a pod's annotation does not say which GPU it has", "namespace", p.Namespace, "pod", p.Name, "error", err)
			}
		}
		if len(claims) > 0 {
			w.claims[name] = claims
		}
	}
	c.badNotes = bad
}

// amend replaces what the kubelet says of containers whose annotations say it.
func (w *world) amend(claims []Claim) []Claim {
	if len(w.claims) == 0 {
		return claims
	}
	replaced := map[collect.Holder]bool{}
	out := make([]Claim, 0, len(claims))
	for _, stated := range w.claims {
		for _, c := range stated {
			replaced[c.Holder] = true
			out = append(out, c)
		}
	}
	for _, c := range claims {
		if !replaced[c.Holder] {
			out = append(out, c)
		}
	}
	return out
}

// over reports whether a holder's pod has ended.
func (w *world) over(h collect.Holder) bool {
	p, ok := w.pods[podName{h.Namespace, h.Pod}]
	return ok && p.Over
}
