package plan

import (
	"slices"
	"strings"
	"time"
)

// loss is the cost of stopping running pods of which each waits for so long until
// it runs again: their moves, and the work that is lost. A gang of which fewer
// than it needs would be left stops as a whole, and is counted once.
func (w *world) loss(pods []*Pod, wait time.Duration) float64 {
	sum := 0.0
	var gangs []*gang
	stopped := map[*gang]int{}
	for _, p := range pods {
		if g := w.gangNamed(p.Gang); g != nil {
			if stopped[g]++; stopped[g] == 1 {
				gangs = append(gangs, g)
			}
		}
	}
	for _, p := range pods {
		g := w.gangNamed(p.Gang)
		if g == nil || w.left(g)-stopped[g] >= g.min {
			sum += w.moveCost(p, wait) + w.workOf(p)
		}
	}
	for _, g := range gangs {
		if left := w.left(g); left < g.min || left-stopped[g] >= g.min {
			continue // it does not run already, or goes on
		}
		for _, p := range g.runs {
			sum += w.moveCost(p, wait) + w.workOf(p)
		}
	}
	return sum
}

// left is how many members of a gang run and stay.
func (w *world) left(g *gang) int {
	n := 0
	for _, p := range g.runs {
		if !w.evictedPods[p] {
			n++
		}
	}
	return n
}

func (w *world) gangNamed(name string) *gang {
	i, ok := slices.BinarySearchFunc(w.gangs, name, func(g *gang, n string) int { return strings.Compare(g.name, n) })
	if !ok || name == "" {
		return nil
	}
	return w.gangs[i]
}

// moveCost is the cost of moving a pod: the interruption, and the wait until it
// runs again.
func (w *world) moveCost(p *Pod, wait time.Duration) float64 {
	return float64(slicesOf(p)) / gpuSlices * urgency(p.Priority) * (w.policy.EvictionCost + w.policy.WaitCostPerHour*max(wait, 0).Hours())
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
	return hours * w.gpuPrice(p.Node) * float64(slicesOf(p)) / gpuSlices
}

// gpuPrice is the price of one of a node's GPUs for an hour.
func (w *world) gpuPrice(node string) float64 {
	i := w.nodeIndex(node)
	if i < 0 || w.nodes[i].pool < 0 {
		return 1
	}
	ps := &w.pools[w.nodes[i].pool]
	return ps.price() / float64(max(1, len(ps.Template.GPUs)))
}

// restart is how long a pod that is evicted from a node waits for another place:
// for a new node, where nothing is known to be free.
func (w *world) restart(node int) time.Duration {
	if pool := w.nodes[node].pool; pool >= 0 {
		return max(w.pools[pool].ReadyAfter, gracePeriod)
	}
	return gracePeriod
}
