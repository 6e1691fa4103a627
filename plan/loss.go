package plan

import (
	"slices"
	"strings"
	"time"
)

// gracePeriod is the usual time from an eviction to the pod's end: Kubernetes'
// default grace period.
const gracePeriod = 30 * time.Second

// loss is the cost of stopping running pods of which each waits for so long until
// it runs again: their moves, and the work that is lost. A gang of which fewer
// than it needs would be left stops as a whole, and is counted once.
func (w *world) loss(pods []*Pod, wait time.Duration) float64 {
	stopped := map[*gang]int{}
	for _, p := range pods {
		stopped[w.gangNamed(p.Gang)]++
	}
	sum := 0.0
	for _, p := range pods {
		g := w.gangNamed(p.Gang)
		switch n := stopped[g]; {
		case n == gangCounted:
		case g == nil || w.left(g)-n >= g.min: // the others go on
			sum += w.moveCost(p, wait) + w.workOf(p)
		case w.left(g) >= g.min: // else it does not run already
			for _, q := range g.runs {
				sum += w.moveCost(q, wait) + w.workOf(q)
			}
			stopped[g] = gangCounted
		}
	}
	return sum
}

// gangCounted is of a gang all of whose members are in the loss.
const gangCounted = -1

// moveCost is the cost of moving a pod: the interruption, and the wait until it
// runs again.
func (w *world) moveCost(p *Pod, wait time.Duration) float64 {
	return w.gpusOf(p) * urgency(p.Priority) * (w.policy.EvictionCost + w.policy.WaitCostPerHour*max(wait, 0).Hours())
}

// servers are the kinds of owners whose pods serve requests: a pod that is moved
// has no work to repeat.
var servers = []string{"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "InferenceService"}

// workOf is the price of the GPU time that a pod would have to repeat: since it
// began, or none where it serves requests or says when it may be moved without
// losing work.
func (w *world) workOf(p *Pod) float64 {
	owner, _, _ := strings.Cut(p.Owner, "/")
	if !p.EvictFrom.IsZero() && !p.EvictFrom.After(w.now) || slices.Contains(servers, owner) {
		return 0
	}
	hours := w.policy.NodeLife.Hours() // an unknown age
	if !p.Created.IsZero() {
		hours = max(w.now.Sub(p.Created), 0).Hours()
	}
	return hours * w.gpuPrice(p.Node) * w.gpusOf(p)
}

// gpusOf is a running pod's demand in GPUs; all of its node's where it is unknown.
func (w *world) gpusOf(p *Pod) float64 {
	if i := w.nodeIndex(p.Node); i >= 0 && p.Unreadable != "" {
		return float64(len(w.nodes[i].GPUs))
	}
	return float64(slicesOf(p)) / gpuSlices
}

// gpuPrice is the price of one of a node's GPUs for an hour.
func (w *world) gpuPrice(node string) float64 {
	i := w.nodeIndex(node)
	if i < 0 || w.nodes[i].pool == nil {
		return 1
	}
	ps := w.nodes[i].pool
	return ps.price() / float64(max(1, len(ps.Template.GPUs)))
}

// restart is how long a pod that is evicted from the node waits for another place:
// for a new node, where nothing is known to be free.
func (n *nodeState) restart() time.Duration {
	if n.pool != nil {
		return max(n.pool.ReadyAfter, gracePeriod)
	}
	return gracePeriod
}
