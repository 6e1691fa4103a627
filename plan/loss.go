package plan

import (
	"slices"
	"strings"
	"time"
)

// gracePeriod is the usual time from an eviction to the pod's end: Kubernetes'
// default grace period.
const gracePeriod = 30 * time.Second

// loss is the cost of stopping running pods: their moves, and the work that is lost. wait is
// how long each takes until it runs again. A gang that would be left with fewer members than
// it needs stops as a whole, and is counted once.
func (e *evictions) loss(pods []*Pod, wait time.Duration) float64 {
	stopped := map[*gang]int{}
	for _, p := range pods {
		stopped[e.gangNamed(p.Gang)]++
	}
	sum := 0.0
	for _, p := range pods {
		g := e.gangNamed(p.Gang)
		switch n := stopped[g]; {
		case n == gangCounted:
		case g == nil || e.left(g)-n >= g.min: // the others go on
			sum += e.moveCost(p, wait) + e.workOf(p)
		case e.left(g) >= g.min: // else it does not run already
			for _, q := range g.runs {
				sum += e.moveCost(q, wait) + e.workOf(q)
			}
			stopped[g] = gangCounted
		}
	}
	return sum
}

// gangCounted marks a gang whose members are all in the loss already.
const gangCounted = -1

// moveCost is the cost of moving a pod: the interruption, and the wait until it
// runs again.
func (e *evictions) moveCost(p *Pod, wait time.Duration) float64 {
	return e.fleet.gpusOf(p) * urgency(p.Priority) * (e.conditions.policy.EvictionCost + e.conditions.policy.WaitCostPerHour*max(wait, 0).Hours())
}

// servers are the kinds of owners whose pods serve requests: a pod that is moved
// has no work to repeat.
var servers = []string{"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "InferenceService"}

// workOf is the price of the GPU time that a pod would have to repeat: since it
// began, or none where it serves requests or says when it may be moved without
// losing work.
func (e *evictions) workOf(p *Pod) float64 {
	owner, _, _ := strings.Cut(p.Owner, "/")
	if !p.EvictFrom.IsZero() && !p.EvictFrom.After(e.conditions.now) || slices.Contains(servers, owner) {
		return 0
	}
	hours := e.conditions.policy.NodeLife.Hours() // an unknown age
	if !p.Created.IsZero() {
		hours = max(e.conditions.now.Sub(p.Created), 0).Hours()
	}
	return hours * e.fleet.gpuPrice(p.Node) * e.fleet.gpusOf(p)
}

// restart is how long a pod that is evicted from the node waits for another place:
// for a new node, where nothing is known to be free.
func (n *nodeState) restart() time.Duration {
	if n.pool != nil {
		return max(n.pool.ReadyAfter, gracePeriod)
	}
	return gracePeriod
}
