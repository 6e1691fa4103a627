package sim

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

func (w *World) reclaim(a plan.Action) error {
	i := w.pod(a.Pod)
	if i < 0 {
		return errors.New("there is no such pod")
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
	for b := range w.stated(p.Budgets) { // where pods state different numbers, the least counts
		if b.Allowed <= 0 {
			return "exceeds the budget " + b.Name
		}
	}
	return ""
}

// stated ranges over some budgets in all pods that state them.
func (w *World) stated(budgets []plan.Budget) iter.Seq[*plan.Budget] {
	return func(yield func(*plan.Budget) bool) {
		for i := range w.State.Pods {
			for j := range w.State.Pods[i].Budgets {
				b := &w.State.Pods[i].Budgets[j]
				if slices.ContainsFunc(budgets, func(o plan.Budget) bool { return o.Name == b.Name }) && !yield(b) {
					return
				}
			}
		}
	}
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
	for b := range w.stated(p.Budgets) {
		b.Allowed = max(b.Allowed-1, 0)
	}
	if w.evicted == nil {
		w.evicted = map[string]bool{}
	}
	w.evicted[key] = true
	if w.Evicted != nil {
		w.Evicted(p)
	}
}

// runs is called when a pod was bound. If the pod was evicted before, its budgets allow one more again.
func (w *World) runs(p *plan.Pod) {
	if key := p.Key(); w.evicted[key] {
		delete(w.evicted, key)
		for b := range w.stated(p.Budgets) {
			b.Allowed++
		}
	}
	if w.Bound != nil {
		w.Bound(p)
	}
}

// RemovePod ends a pod and releases its devices; false when there is none.
func (w *World) RemovePod(key string) bool {
	i := w.pod(key)
	if i < 0 {
		return false
	}
	if n := w.node(w.State.Pods[i].Node); n != nil {
		w.release(n, key)
	}
	w.State.Pods = slices.Delete(w.State.Pods, i, i+1)
	delete(w.evicted, key)
	return true
}

func (w *World) release(n *plan.Node, key string) {
	for c := range n.GPUs {
		device := &n.GPUs[c]
		had := len(device.AllocatedTo)
		device.AllocatedTo = slices.DeleteFunc(device.AllocatedTo, func(h string) bool { return h == key })
		if had > 0 && len(device.AllocatedTo) == 0 {
			device.IdleSince, device.UnusedSince = w.State.Now, time.Time{}
		}
		for i := range device.Instances {
			if in := &device.Instances[i]; in.AllocatedTo == key {
				in.AllocatedTo, in.IdleSince, in.UnusedSince = "", w.State.Now, time.Time{}
			}
		}
		if device.ByClaim {
			device.Instances = slices.DeleteFunc(device.Instances, func(in plan.Instance) bool { return in.AllocatedTo == "" })
			device.MIG = len(device.Instances) > 0
		}
	}
}

// drain cordons a node and evicts what may be evicted now, by name, within
// budgets. The rest stays until the next drain of the node.
func (w *World) drain(a plan.Action, n *plan.Node) error {
	switch {
	case n.Operation != nil:
		return fmt.Errorf("%s is under way", n.Operation.ID)
	case n.NoScaleDown && a.Reason == plan.NodeUnderused:
		return errors.New("the node must not be removed")
	}
	n.Cordoned = true
	if n.Drain == nil {
		n.Drain = &plan.Draining{Started: w.State.Now, Deadline: a.Deadline, Reason: a.Reason}
	}
	for _, p := range w.podsOn(a.Node) {
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

// podsOn are the pods of a node, by name.
func (w *World) podsOn(node string) []*plan.Pod {
	var there []*plan.Pod
	for i := range w.State.Pods {
		if w.State.Pods[i].Node == node {
			there = append(there, &w.State.Pods[i])
		}
	}
	slices.SortFunc(there, func(a, b *plan.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	return there
}

// uncordon ends the operation that the action names. Where it names none, the node's
// drain is given up. An interrupted node stays cordoned.
func (w *World) uncordon(a plan.Action, n *plan.Node) error {
	leaves := n.LeavesAt.After(w.State.Now)
	switch {
	case a.Operation != "":
		n.CordonedBy, n.Operation = "", nil
		n.Cordoned = n.Drain != nil || leaves
	case n.Drain == nil:
		return errors.New("it is not being drained, and no operation is named")
	default:
		n.Drain = nil
		n.Cordoned = n.CordonedBy != "" || leaves
	}
	return nil
}
