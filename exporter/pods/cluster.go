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
	// clusterEvery is the interval of requests to the API server without a
	// change.
	clusterEvery = time.Minute
	// clusterRetry is the delay of one more request after a failure or a
	// change.
	clusterRetry = 10 * time.Second
	// clusterPause is the least time between two requests.
	clusterPause = 2 * time.Second
)

// podName names a pod of this node.
type podName struct{ namespace, name string }

// world is the API server's last answer; immutable.
type world struct {
	pods    map[podName]*Pod
	byUID   map[string]*Pod // by the UID in cgroup paths
	claims  map[podName][]Claim
	devices map[draName]Device // of the node's ResourceSlices
}

// cluster keeps the API server's last answer about this node's pods and
// ResourceSlices. It is requested when the kubelet's answer has changed, and
// every minute; the last one stays while requests fail.
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

// asked reports whether anything is needed of the API server.
func (c *cluster) asked() bool { return c.api != nil && (c.podsToo || c.dra) }

// poke requests a refresh soon.
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
		// From now on: an unread tick would come at once.
		retry.Reset(clusterRetry)
		pause.Reset(clusterPause)
		// A scheduler or a DRA driver may write its result after the kubelet's
		// answer.
		again = woken || c.failed != nil
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// refresh requests once. A failure is logged when it begins and when it ends.
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
		c.log.Warn("the API server does not answer about this node; its last answer is kept", "error", err)
	case err == nil && c.failed != nil:
		c.log.Info("the API server answers about this node again")
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
				c.log.Warn("a pod's annotation names no GPU", "namespace", p.Namespace, "pod", p.Name, "error", err)
			}
		}
		if len(claims) > 0 {
			w.claims[name] = claims
		}
	}
	c.badNotes = bad
}

// amend replaces the kubelet's claims of containers whose annotations state
// them.
func (w *world) amend(claims []Claim) []Claim {
	if len(w.claims) == 0 {
		return claims
	}
	replaced := map[collect.Allocation]bool{}
	out := make([]Claim, 0, len(claims))
	for _, stated := range w.claims {
		for _, c := range stated {
			replaced[c.Allocation] = true
			out = append(out, c)
		}
	}
	for _, c := range claims {
		if !replaced[c.Allocation] {
			out = append(out, c)
		}
	}
	return out
}

// over reports whether an allocation's pod has ended.
func (w *world) over(h collect.Allocation) bool {
	p, ok := w.pods[podName{h.Namespace, h.Pod}]
	return ok && p.Over
}
