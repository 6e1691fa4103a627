package fleet

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// waits follow pods from pending to bound and nodes from asked for to ready. Their
// memory is the pods that wait and the nodes there are.
type waits struct {
	pods, nodes *prometheus.HistogramVec
	decisions   prometheus.Histogram

	last    time.Time // round
	pending map[podKey]pendingPod
	next    map[podKey]pendingPod // pending's spare
	young   map[podKey]bool       // bound at the last round, and made in its second
	known   map[nodeKey]nodeWait
	tenants map[string]bool
	pools   map[string]bool
}

type podKey struct{ namespace, name string }

// pendingPod is one that waits; answered once something was done for it.
type pendingPod struct {
	created, since time.Time
	answered       bool
}

// nodeWait is a node that is there: when it was asked for, and whether it has been
// ready.
type nodeWait struct {
	asked time.Time
	ready bool
}

func newWaits() *waits {
	return &waits{
		pods:      prometheus.NewHistogramVec(histogram(metric.AutoscalerPodWait, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800), metric.AutoscalerPodWait.Labels),
		nodes:     prometheus.NewHistogramVec(histogram(metric.AutoscalerNodeReady, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800, 3600), metric.AutoscalerNodeReady.Labels),
		decisions: prometheus.NewHistogram(histogram(metric.AutoscalerDecisionSeconds, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)),
		pending:   map[podKey]pendingPod{}, next: map[podKey]pendingPod{}, known: map[nodeKey]nodeWait{}, tenants: map[string]bool{},
	}
}

// histogram has classic buckets, and native ones for a Prometheus that takes those.
func histogram(d metric.Desc, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
}

func (w *waits) observe(r *Round) {
	w.declare(r)
	w.followPods(r)
	w.decided(r)
	w.followNodes(r)
	w.last = r.Now
}

// declare makes the histograms of pools and tenants exist at zero, so that a rate
// sees the first observation, and forgets those of pools that are gone.
func (w *waits) declare(r *Round) {
	there := make(map[string]bool, len(r.Pools))
	for i := range r.Pools {
		there[r.Pools[i].Name] = true
		w.nodes.WithLabelValues(r.Pools[i].Name)
	}
	for pool := range w.pools {
		if !there[pool] {
			w.nodes.DeleteLabelValues(pool)
		}
	}
	w.pools = there
	w.pods.WithLabelValues(w.tenant(""))
	for i := range r.Tenants {
		w.pods.WithLabelValues(w.tenant(r.Tenants[i].Name))
	}
}

// tenant is the label of one: there are no more than maxNamed.
func (w *waits) tenant(name string) string {
	name = named(name)
	if !w.tenants[name] && len(w.tenants) >= maxNamed {
		return metric.Other
	}
	w.tenants[name] = true
	return name
}

// followPods measures pods that were bound since the round before. One that was
// made and bound in between counts too, or only the slow ones would; Kubernetes cuts
// the time when it was made to seconds.
func (w *waits) followPods(r *Round) {
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
			w.next[key] = pendingPod{created: p.Created, since: firstOf(p.PendingSince, p.Created, r.Now)}
		case waited:
			w.bound(p, r.Now.Sub(firstOf(was.created, was.since)))
		case !w.last.IsZero() && !w.young[key] && !p.Created.Before(w.last.Truncate(time.Second)):
			w.bound(p, r.Now.Sub(p.Created))
		}
		if p.Node != "" && !p.Created.Before(r.Now.Truncate(time.Second)) {
			young[key] = true
		}
	}
	w.pending, w.next, w.young = w.next, w.pending, young
}

func (w *waits) bound(p *plan.Pod, took time.Duration) {
	w.pods.WithLabelValues(w.tenant(p.Tenant)).Observe(max(0, took.Seconds()))
}

// decided measures how long pods waited for the first thing done for them.
func (w *waits) decided(r *Round) {
	for _, result := range r.Results {
		if result.Outcome != act.Done && result.Outcome != act.Waiting {
			continue
		}
		for _, name := range result.Action.For {
			namespace, pod, _ := strings.Cut(name, "/")
			key := podKey{namespace, pod}
			if p, ok := w.pending[key]; ok && !p.answered {
				p.answered = true
				w.pending[key] = p
				w.decisions.Observe(max(0, firstOf(r.Acted, r.Now).Sub(p.since).Seconds()))
			}
		}
	}
}

// followNodes measures nodes of pools that have become ready. Of those that were
// ready before anybody looked nobody knows how long they took.
func (w *waits) followNodes(r *Round) {
	next := make(map[nodeKey]nodeWait, len(w.known))
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Pool == "" {
			continue
		}
		key := nodeKey{n.Name, n.Created}
		node, known := w.known[key]
		if !known {
			node.asked = asked(r.Memory.Grown, n)
			node.ready = w.last.IsZero() && n.Ready
		}
		if !node.ready && n.Ready && len(n.Cards) > 0 && w.pools[n.Pool] {
			node.ready = true
			w.nodes.WithLabelValues(n.Pool).Observe(max(0, r.Now.Sub(node.asked).Seconds()))
		}
		next[key] = node
	}
	w.known = next
}

// asked is when a node was asked for: by the last request for its pool before it
// came, as the planner remembers, else when it came. Kubernetes cuts the latter to
// seconds.
func asked(grown []plan.Growth, n *plan.Node) time.Time {
	at := time.Time{}
	for _, g := range grown {
		if g.Pool == n.Pool && g.At.Before(n.Created.Add(time.Second)) && g.At.After(at) {
			at = g.At
		}
	}
	return firstOf(at, n.Created)
}

// firstOf is the first time that is one.
func firstOf(all ...time.Time) time.Time {
	for _, t := range all {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func (w *waits) describe(ch chan<- *prometheus.Desc) {
	w.pods.Describe(ch)
	w.nodes.Describe(ch)
	w.decisions.Describe(ch)
}

func (w *waits) collect(ch chan<- prometheus.Metric) {
	w.pods.Collect(ch)
	w.nodes.Collect(ch)
	w.decisions.Collect(ch)
}
