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

// nothingCame is the reason of a scale-up after which no node was registered.
const nothingCame = "NothingCame"

// events counts and measures what happened between reconciles: failures of pools, interruptions, pods that are
// bound, nodes that become ready. The first reconcile is the baseline. The state is bounded by the pools, the
// pending pods and the nodes.
type events struct {
	failures, interruptions *prometheus.CounterVec
	pods, nodes             *prometheus.HistogramVec
	decisions               prometheus.Histogram

	last time.Time // reconcile
	// pools has the number of successive failures, by pool. refused are the pools with a failed action in the last
	// reconcile: that failure is counted already, and the next number includes it.
	pools   map[string]int
	refused map[string]bool
	pending map[podKey]pendingPod
	young   map[podKey]bool // bound at the last reconcile, and created within its second
	known   map[nodeKey]nodeState
	tenants map[string]bool
}

type podKey struct{ namespace, name string }

// pendingPod is a pending pod.
type pendingPod struct {
	created, since time.Time
	decided        bool // an action was done for it
}

// nodeKey distinguishes nodes of the same name.
type nodeKey struct {
	name    string
	created time.Time
}

// nodeState is a node of a pool.
type nodeState struct {
	requested   time.Time
	ready       bool // now or before
	interrupted bool
}

func newEvents() *events {
	return &events{
		failures: counters(metric.AutoscalerPoolFailures), interruptions: counters(metric.AutoscalerInterruptions),
		pods:      prometheus.NewHistogramVec(histogram(metric.AutoscalerPodPendingSeconds, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800), metric.AutoscalerPodPendingSeconds.Labels),
		nodes:     prometheus.NewHistogramVec(histogram(metric.AutoscalerNodeReady, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800, 3600), metric.AutoscalerNodeReady.Labels),
		decisions: prometheus.NewHistogram(histogram(metric.AutoscalerDecisionSeconds, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)),
		tenants:   map[string]bool{},
	}
}

// histogram has classic buckets, which every server keeps. A server that scrapes native histograms would drop classic
// buckets beside them.
func histogram(d metric.Desc, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}
}

func (w *events) observe(r *Reconcile) {
	w.observePools(r)
	w.observePods(r)
	w.observeDecisions(r)
	w.observeNodes(r)
	w.last = r.Now
}

// observePools counts the failures of pools. Series of pools and tenants are exported from the start, so that rate()
// sees the first event. Series of deleted pools are deleted.
func (w *events) observePools(r *Reconcile) {
	pools := make(map[string]int, len(r.Pools))
	for i := range r.Pools {
		name := r.Pools[i].Name
		w.nodes.WithLabelValues(name)
		w.interruptions.WithLabelValues(name)
		came := w.failures.WithLabelValues(name, nothingCame)
		pools[name] = r.Learned[name].Failures
		if !w.last.IsZero() && pools[name] > w.pools[name] && !w.refused[name] {
			came.Inc()
		}
	}
	for pool := range w.pools {
		if _, exists := pools[pool]; !exists {
			gone := prometheus.Labels{metric.LabelPool: pool}
			w.failures.DeletePartialMatch(gone)
			w.interruptions.DeletePartialMatch(gone)
			w.nodes.DeletePartialMatch(gone)
		}
	}
	w.pools, w.refused = pools, map[string]bool{}
	for _, result := range r.Results {
		a := &result.Action
		if _, exists := pools[a.Pool]; !exists {
			continue
		}
		failures := w.failures.WithLabelValues(a.Pool, named(string(a.Reason)))
		if result.Outcome == act.Failed {
			failures.Inc()
			w.refused[a.Pool] = true
		}
	}
	w.pods.WithLabelValues(w.tenant(""))
	for i := range r.Tenants {
		w.pods.WithLabelValues(w.tenant(r.Tenants[i].Name))
	}
}

// tenant returns a tenant's label value, metric.Other beyond maxNamed tenants.
func (w *events) tenant(name string) string {
	name = named(name)
	if !w.tenants[name] && len(w.tenants) >= maxNamed {
		return metric.Other
	}
	w.tenants[name] = true
	return name
}

// observePods measures the pods that were bound since the last reconcile. It includes pods that were also created since
// then: otherwise only slow ones would count. Creation times are truncated to seconds.
func (w *events) observePods(r *Reconcile) {
	pending, young := make(map[podKey]pendingPod, len(w.pending)), map[podKey]bool{}
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
			pending[key] = was
		case p.Node == "":
			pending[key] = pendingPod{created: p.Created, since: cmp.Or(p.PendingSince, p.Created, r.Now)}
		case waited:
			w.bound(p, r.Now.Sub(cmp.Or(was.created, was.since)))
		case !w.last.IsZero() && !w.young[key] && !p.Created.Before(w.last.Truncate(time.Second)):
			w.bound(p, r.Now.Sub(p.Created))
		}
		if p.Node != "" && !p.Created.Before(r.Now.Truncate(time.Second)) {
			young[key] = true
		}
	}
	w.pending, w.young = pending, young
}

func (w *events) bound(p *plan.Pod, took time.Duration) {
	w.pods.WithLabelValues(w.tenant(p.Tenant)).Observe(max(0, took.Seconds()))
}

// observeDecisions measures the time from pending to the first action for a pod.
func (w *events) observeDecisions(r *Reconcile) {
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

// observeNodes measures the nodes of pools that have become ready, and counts those that are newly interrupted. It does
// not measure nodes that are ready in the first reconcile: their time is unknown.
func (w *events) observeNodes(r *Reconcile) {
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
		if _, exists := w.pools[n.Pool]; exists && !node.ready && n.Ready && len(n.GPUs) > 0 {
			node.ready = true
			w.nodes.WithLabelValues(n.Pool).Observe(max(0, r.Now.Sub(node.requested).Seconds()))
		}
		was := node.interrupted
		if node.interrupted = !n.LeavesAt.IsZero(); node.interrupted && !was && !w.last.IsZero() {
			w.interruptions.WithLabelValues(n.Pool).Inc()
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
