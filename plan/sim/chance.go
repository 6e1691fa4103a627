package sim

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

const (
	// registration is when the maker of a node gives up one that has not registered:
	// cluster-autoscaler's --max-node-provision-time and Karpenter's registration
	// timeout are both 15 minutes from the request.
	registration = 15 * time.Minute
	// notice is between the announcement of an interruption and the node's end, as
	// on AWS.
	notice = 2 * time.Minute
)

// lose keeps a node that never registers in its pool's target until it is given up.
func (w *World) lose(p *plan.Pool) {
	name := p.Name
	if w.lost == nil {
		w.lost = map[string]int{}
	}
	w.lost[name]++
	w.after(registration-p.ReadyAfter, func(w *World) string {
		p := w.pool(name)
		if p == nil || w.lost[name] == 0 {
			return "" // it was withdrawn
		}
		w.lost[name]--
		p.Target--
		return "a node of " + name + " is given up"
	})
}

// interrupt announces that the provider takes a node: it is cordoned.
func (w *World) interrupt(name string) string {
	n := w.node(name)
	if n == nil {
		return ""
	}
	n.LeavesAt, n.Cordoned = w.State.Now.Add(notice), true
	w.after(notice, func(w *World) string { return w.take(name) })
	return name + " is interrupted"
}

// take ends an interrupted node. Its pods are pending again, whether or not they
// may be evicted, and its pool is smaller by one.
func (w *World) take(name string) string {
	i := slices.IndexFunc(w.State.Nodes, func(n plan.Node) bool { return n.Name == name })
	if i < 0 {
		return ""
	}
	p := w.pool(w.State.Nodes[i].Pool)
	w.State.Pods = slices.DeleteFunc(w.State.Pods, func(pod plan.Pod) bool { return pod.Node == name && pod.DaemonSet })
	for j := range w.State.Pods {
		if pod := &w.State.Pods[j]; pod.Node == name {
			w.evict(pod)
		}
	}
	w.State.Nodes = slices.Delete(w.State.Nodes, i, i+1)
	p.Size--
	p.Target--
	return name + " is gone"
}
