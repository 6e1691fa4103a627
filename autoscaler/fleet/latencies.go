package fleet

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// latencies measures pods from pending to bound and nodes from request to ready. Its
// state is bounded by the pending pods and the nodes.
type latencies struct {
	pods, nodes *prometheus.HistogramVec
	decisions   prometheus.Histogram

	last    time.Time // reconcile
	pending map[podKey]pendingPod
	next    map[podKey]pendingPod // of the present reconcile; swapped with pending
	young   map[podKey]bool       // bound at the last reconcile, and created within its second
	known   map[nodeKey]nodeState
	tenants map[string]bool
	pools   map[string]bool
}

type podKey struct{ namespace, name string }

// pendingPod is a pending pod.
type pendingPod struct {
	created, since time.Time
	decided        bool // an action was done for it
}

// nodeState is a node of a pool.
type nodeState struct {
	requested time.Time
	ready     bool // now or before
}

func newLatencies() *latencies {
	return &latencies{
		pods:      prometheus.NewHistogramVec(histogram(metric.AutoscalerPodPendingSeconds, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800), metric.AutoscalerPodPendingSeconds.Labels),
		nodes:     prometheus.NewHistogramVec(histogram(metric.AutoscalerNodeReady, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800, 3600), metric.AutoscalerNodeReady.Labels),
		decisions: prometheus.NewHistogram(histogram(metric.AutoscalerDecisionSeconds, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)),
		pending:   map[podKey]pendingPod{}, next: map[podKey]pendingPod{}, known: map[nodeKey]nodeState{}, tenants: map[string]bool{},
	}
}

// histogram has classic buckets, which every server keeps: one that scrapes native histograms would drop these for those.
func histogram(d metric.Desc, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}
}

func (w *latencies) observe(r *Reconcile) {
	w.declare(r)
	w.observePods(r)
	w.observeDecisions(r)
	w.observeNodes(r)
	w.last = r.Now
}

// declare creates the histograms of pools and tenants at zero, so that rate() sees the
// first observation, and deletes those of deleted pools.
func (w *latencies) declare(r *Reconcile) {
	exists := make(map[string]bool, len(r.Pools))
	for i := range r.Pools {
		exists[r.Pools[i].Name] = true
		w.nodes.WithLabelValues(r.Pools[i].Name)
	}
	for pool := range w.pools {
		if !exists[pool] {
			w.nodes.DeleteLabelValues(pool)
		}
	}
	w.pools = exists
	w.pods.WithLabelValues(w.tenant(""))
	for i := range r.Tenants {
		w.pods.WithLabelValues(w.tenant(r.Tenants[i].Name))
	}
}

// tenant returns a tenant's label value, metric.Other beyond maxNamed tenants.
func (w *latencies) tenant(name string) string {
	name = named(name)
	if !w.tenants[name] && len(w.tenants) >= maxNamed {
		return metric.Other
	}
	w.tenants[name] = true
	return name
}

// observePods measures the pods bound since the last reconcile, also those created since:
// otherwise only slow ones would count. Creation times are truncated to seconds.
func (w *latencies) observePods(r *Reconcile) {
	clear(w.next)
	young := map[podKey]bool{}
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Unmade || p.DaemonSet || p.Demand.Zero() && p.Unreadable == "" {
			continue
		}
		key := podKey{p.Namespace, p.Name}
		was, waited := w.pending[key]
		waited = waited && was.created.Equal(p.Created)
		switch {
		case p.Node == "" && waited:
			w.next[key] = was
		case p.Node == "":
			w.next[key] = pendingPod{created: p.Created, since: cmp.Or(p.PendingSince, p.Created, r.Now)}
		case waited:
			w.bound(p, r.Now.Sub(cmp.Or(was.created, was.since)))
		case !w.last.IsZero() && !w.young[key] && !p.Created.Before(w.last.Truncate(time.Second)):
			w.bound(p, r.Now.Sub(p.Created))
		}
		if p.Node != "" && !p.Created.Before(r.Now.Truncate(time.Second)) {
			young[key] = true
		}
	}
	w.pending, w.next, w.young = w.next, w.pending, young
}

func (w *latencies) bound(p *plan.Pod, took time.Duration) {
	w.pods.WithLabelValues(w.tenant(p.Tenant)).Observe(max(0, took.Seconds()))
}

// observeDecisions measures the time from pending to the first action for a pod.
func (w *latencies) observeDecisions(r *Reconcile) {
	for _, result := range r.Results {
		if result.Outcome != act.Done && result.Outcome != act.Waiting {
			continue
		}
		for _, name := range result.Action.For {
			namespace, pod, _ := strings.Cut(name, "/")
			key := podKey{namespace, pod}
			if p, ok := w.pending[key]; ok && !p.decided {
				p.decided = true
				w.pending[key] = p
				w.decisions.Observe(max(0, cmp.Or(r.Acted, r.Now).Sub(p.since).Seconds()))
			}
		}
	}
}

// observeNodes measures the nodes of pools that have become ready. For nodes that are
// ready in the first reconcile the time is unknown.
func (w *latencies) observeNodes(r *Reconcile) {
	next := make(map[nodeKey]nodeState, len(w.known))
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Pool == "" {
			continue
		}
		key := nodeKey{n.Name, n.Created}
		node, known := w.known[key]
		if !known {
			node.requested = requestTime(r.State.Grown[n.Pool], n)
			node.ready = w.last.IsZero() && n.Ready
		}
		if !node.ready && n.Ready && len(n.GPUs) > 0 && w.pools[n.Pool] {
			node.ready = true
			w.nodes.WithLabelValues(n.Pool).Observe(max(0, r.Now.Sub(node.requested).Seconds()))
		}
		next[key] = node
	}
	w.known = next
}

// requestTime is the time of the pool's last scale-up before the node's creation, or the
// creation, which is truncated to seconds.
func requestTime(grown []plan.Growth, n *plan.Node) time.Time {
	at := time.Time{}
	for _, g := range grown {
		if g.At.Before(n.Created.Add(time.Second)) && g.At.After(at) {
			at = g.At
		}
	}
	return cmp.Or(at, n.Created)
}
