package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

func (w *World) reclaim(a plan.Action) error {
	i := w.pod(a.Pod)
	if i < 0 {
		return fmt.Errorf("there is no such pod")
	}
	p := &w.State.Pods[i]
	if a.Node != "" && a.Node != p.Node {
		return fmt.Errorf("it does not run on %s", a.Node)
	}
	if why := w.stays(p, w.State.Now); why != "" {
		return fmt.Errorf("it %s", why)
	}
	w.evict(p)
	return nil
}

// stays returns why a pod cannot be evicted at a time, empty where it can.
func (w *World) stays(p *plan.Pod, at time.Time) string {
	switch {
	case p.Node == "":
		return "runs nowhere"
	case p.Leaving:
		return "is leaving already"
	case !p.Evictable || p.DaemonSet:
		return "is not evictable"
	case p.EvictFrom.After(at):
		return "may not be evicted for another " + p.EvictFrom.Sub(at).String()
	}
	for _, b := range p.Budgets {
		if w.allowed(b) <= 0 {
			return "exceeds the budget " + b.Name
		}
	}
	return ""
}

// allowed is the least that pods state of what a budget allows.
func (w *World) allowed(b plan.Budget) int {
	for i := range w.State.Pods {
		for _, o := range w.State.Pods[i].Budgets {
			if o.Name == b.Name {
				b.Allowed = min(b.Allowed, o.Allowed)
			}
		}
	}
	return b.Allowed
}

// evict releases a pod's devices at once. Its owner creates it again: it is
// pending under the same name and unschedulable. Evictable implies an owner, so
// no evicted pod is lost. Until it runs again its budgets allow one less.
func (w *World) evict(p *plan.Pod) {
	key := p.Key()
	if n := w.node(p.Node); n != nil {
		w.release(n, key)
	}
	p.Node, p.Unschedulable = "", true
	p.Created, p.PendingSince = w.State.Now, w.State.Now
	w.allow(p.Budgets, -1)
	if w.evicted == nil {
		w.evicted = map[string]bool{}
	}
	w.evicted[key] = true
}

// runs restores the budgets of an evicted pod that runs again.
func (w *World) runs(p *plan.Pod) {
	if key := p.Key(); w.evicted[key] {
		delete(w.evicted, key)
		w.allow(p.Budgets, 1)
	}
}

// allow changes what budgets allow, for every pod that states them.
func (w *World) allow(budgets []plan.Budget, by int) {
	for _, b := range slices.Clone(budgets) {
		for i := range w.State.Pods {
			stated := w.State.Pods[i].Budgets
			for j := range stated {
				if stated[j].Name == b.Name {
					stated[j].Allowed = max(stated[j].Allowed+by, 0)
				}
			}
		}
	}
}

// depart removes the pods whose LeavesAt has come.
func (w *World) depart() []Event {
	var leaving []plan.Pod
	for _, p := range w.State.Pods {
		if p.Leaving && !p.LeavesAt.IsZero() && !p.LeavesAt.After(w.State.Now) {
			leaving = append(leaving, p)
		}
	}
	slices.SortFunc(leaving, func(a, b plan.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	var events []Event
	for _, p := range leaving {
		w.RemovePod(p.Key())
		events = append(events, Event{At: w.State.Now, Text: fmt.Sprintf("%s has left %s", p.Key(), p.Node)})
	}
	return events
}

// drain cordons a node and evicts what may be evicted now, by name, within
// budgets. The rest stays until the next drain of the node.
func (w *World) drain(a plan.Action) error {
	n := w.node(a.Node)
	switch {
	case n == nil || w.pool(a.Pool) == nil || n.Pool != a.Pool:
		return fmt.Errorf("there is no such node in %s", a.Pool)
	case n.Operation != nil:
		return fmt.Errorf("%s is under way", n.Operation.ID)
	case n.NoScaleDown && a.Reason == plan.NodeUnderused:
		return fmt.Errorf("the node must not be removed")
	}
	n.Cordoned = true
	if n.Drain == nil {
		n.Drain = &plan.Draining{Started: w.State.Now, Deadline: a.Deadline, Reason: a.Reason}
	}
	var there []*plan.Pod
	for i := range w.State.Pods {
		if w.State.Pods[i].Node == a.Node {
			there = append(there, &w.State.Pods[i])
		}
	}
	slices.SortFunc(there, func(a, b *plan.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	for _, p := range there {
		at := w.State.Now
		if a.Reason == plan.NodeInterrupted && n.LeavesAt.Sub(at) <= plan.LastCall { // its work is lost either way
			at = p.EvictFrom
		}
		if w.stays(p, at) == "" {
			w.evict(p)
		}
	}
	return nil
}

// uncordon ends the operation that it names, or gives up a drain where it names
// none.
func (w *World) uncordon(a plan.Action) error {
	n := w.node(a.Node)
	switch {
	case n == nil:
		return fmt.Errorf("there is no such node")
	case a.Operation != "":
		n.CordonedBy, n.Operation = "", nil
		n.Cordoned = n.Drain != nil
	case n.Drain == nil:
		return fmt.Errorf("it is not being drained, and no operation is named")
	default:
		n.Drain = nil
		n.Cordoned = n.CordonedBy != ""
	}
	return nil
}

func (w *World) removeNode(a plan.Action) error {
	p, err := w.takeNode(a)
	if err == nil {
		p.Target--
	}
	return err
}

// replace removes a node and leaves the target unchanged, so that the pool
// makes another.
func (w *World) replace(a plan.Action) error {
	p, err := w.takeNode(a)
	if err == nil {
		w.after(p.ReadyAfter, func(w *World) string { return w.addNode(a.Pool) })
	}
	return err
}

// takeNode removes an empty node, with its DaemonSet pods, from its pool. Of a sick node that
// is replaced the allocation may be unknown.
func (w *World) takeNode(a plan.Action) (*plan.Pool, error) {
	i := slices.IndexFunc(w.State.Nodes, func(n plan.Node) bool { return n.Name == a.Node })
	p := w.pool(a.Pool)
	if i < 0 || p == nil || w.State.Nodes[i].Pool != a.Pool {
		return nil, fmt.Errorf("there is no such node or pool")
	}
	for _, pod := range w.State.Pods {
		if pod.Node == a.Node && !pod.DaemonSet {
			return nil, fmt.Errorf("%s runs there", pod.Key())
		}
	}
	for _, g := range w.State.Nodes[i].GPUs {
		used := len(g.AllocatedTo) > 0 || slices.ContainsFunc(g.Instances, func(in plan.Instance) bool { return in.AllocatedTo != "" })
		if used || a.Verb == plan.RemoveNode && !g.AllocationKnown {
			return nil, fmt.Errorf("GPU %d is allocated, or its allocation is unknown", g.Index)
		}
	}
	w.dropNode(i, p)
	return p, nil
}

// dropNode ends a node of a pool and its DaemonSet pods.
func (w *World) dropNode(i int, p *plan.Pool) {
	name := w.State.Nodes[i].Name
	w.State.Pods = slices.DeleteFunc(w.State.Pods, func(pod plan.Pod) bool { return pod.Node == name && pod.DaemonSet })
	w.State.Nodes = slices.Delete(w.State.Nodes, i, i+1)
	p.Size--
}

const (
	// Registration is when the maker of a node gives up one that has not registered:
	// cluster-autoscaler's --max-node-provision-time and Karpenter's registration
	// timeout are both 15 minutes from the request.
	Registration = 15 * time.Minute
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
	w.after(Registration-p.ReadyAfter, func(w *World) string {
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
	for j := range w.State.Pods {
		if pod := &w.State.Pods[j]; pod.Node == name && !pod.DaemonSet {
			w.evict(pod)
		}
	}
	w.dropNode(i, p)
	p.Target--
	return name + " is gone"
}
