package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// clusterAutoscaler has cluster-autoscaler's rules with its default flags (its FAQ,
// and static_autoscaler.go for the GPU pods' wait; read 2026-11). It scans every 10 s.
//
// Pods count once the oldest has been pending for 2 s. Where some request whole GPUs,
// the oldest of those must have been pending for 30 s (it does not know MIG resources).
// New nodes are estimated by first fit, the pods with most CPU and memory first. The
// pool that wastes least CPU and memory is scaled up, one pool in each scan (expander
// least-waste).
//
// A node is unneeded when it is empty, or when at most half of its whole GPUs are
// allocated (MIG instances do not count) and all its pods may be evicted and fit
// elsewhere. It is removed after 10 minutes: ten empty nodes at once, others one at a
// time, none within 10 minutes of a scale up. An unneeded node has a soft taint; a scan
// changes the taints of ten nodes. After a scale up, cluster-autoscaler leaves taints as
// they are for ten minutes; here it does not.
type clusterAutoscaler struct {
	unneeded map[string]time.Time // by node, since when it is unneeded
	grew     time.Time            // the last scale up
}

const (
	podWait          = 2 * time.Second
	gpuPodWait       = 30 * time.Second
	unneededFor      = 10 * time.Minute
	delayAfterAdd    = 10 * time.Minute
	removalsAtOnce   = 10
	softTaintsAtOnce = 10
)

func (c *clusterAutoscaler) again(s *plan.Snapshot) bool { return len(pendingPods(s)) > 0 }

func (c *clusterAutoscaler) plan(s plan.Snapshot) plan.Plan {
	out := plan.Plan{At: s.Now}
	f := look(&s)
	if a, ok := c.scaleUp(&s, f.waiting()); ok {
		c.grew = s.Now
		out.Actions = append(out.Actions, a)
	}
	since := map[string]time.Time{}
	removals, tainted := 0, 0
	draining := slices.ContainsFunc(s.Nodes, func(n plan.Node) bool { return n.Drain != nil })
	for i := range f.hosts {
		n := &f.hosts[i]
		act := func(verb plan.Verb, why plan.Reason) { out.Actions = append(out.Actions, on(n.Node, verb, why)) }
		if n.Drain != nil && len(n.Pods) == 0 {
			act(plan.RemoveNode, plan.NodeUnderused)
		}
		if n.Drain != nil || !n.LeavesAt.IsZero() || !n.Ready { // it is drained or interrupted, or it boots
			continue
		}
		unneeded := f.unneeded(i)
		if n.SoftTainted != unneeded && tainted < softTaintsAtOnce {
			tainted++
			verb := plan.RemoveSoftTaint
			if unneeded {
				verb = plan.SoftTaint
			}
			act(verb, "")
		}
		if !unneeded {
			continue
		}
		since[n.Name] = s.Now
		if at, ok := c.unneeded[n.Name]; ok {
			since[n.Name] = at
		}
		switch empty := len(n.Pods) == 0; {
		case s.Now.Sub(since[n.Name]) < unneededFor || s.Now.Sub(c.grew) < delayAfterAdd:
		case empty && removals < removalsAtOnce:
			removals++
			act(plan.RemoveNode, plan.NodeEmpty)
		case !empty && !draining:
			draining = true
			act(plan.Drain, plan.NodeUnderused)
		}
	}
	c.unneeded = since
	return out
}

// unneeded reports whether a node is unneeded. As in cluster-autoscaler, a node with GPUs
// is judged only by the allocated share of nvidia.com/gpu, 0 where it has none of these.
func (f *nodes) unneeded(i int) bool {
	if f.empty(i) {
		return true
	}
	if _, awaits := f.awaiting[i]; awaits || !f.evictable(i) {
		return false
	}
	all, free := freeOf(f.hosts[i].Pool).gpus, f.free(i).gpus
	return 2*(all-free) <= all && len(f.elsewhere([]int{i})) == 0
}

// waiting returns the pods that need a new node, largest first: those that fit neither
// the nodes in service nor upcoming ones. It returns none until the oldest has been
// pending long enough.
func (f *nodes) waiting() []*plan.Pod {
	s, pods := f.s, f.pending
	node := s.Pools[0].Template // the others have the same proportions
	size := func(p *plan.Pod) float64 {
		return float64(p.CPUMilli)/float64(node.CPUMilli) + float64(p.MemoryMi)/float64(node.MemoryMi)
	}
	slices.SortStableFunc(pods, func(a, b *plan.Pod) int { return cmp.Compare(size(b), size(a)) })
	pods = upcoming(s, pods)
	whole := func(p *plan.Pod) bool { return p.Demand.GPUs > 0 }
	wait, old := podWait, pods
	if slices.ContainsFunc(pods, whole) {
		wait, old = gpuPodWait, slices.DeleteFunc(slices.Clone(pods), func(p *plan.Pod) bool { return !whole(p) })
	}
	if !slices.ContainsFunc(old, func(p *plan.Pod) bool { return s.Now.Sub(p.Created) >= wait }) {
		return nil
	}
	return pods
}

func pendingPods(s *plan.Snapshot) []*plan.Pod {
	var pods []*plan.Pod
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Node == "" {
			pods = append(pods, p)
		}
	}
	return pods
}

// scaleUp returns the scale up of the pool with the least waste on the nodes that the
// pods need. It is false where no pool can add a node for them.
func (c *clusterAutoscaler) scaleUp(s *plan.Snapshot, waiting []*plan.Pod) (plan.Action, bool) {
	best, least, found := plan.Action{}, 0.0, false
	for i := range s.Pools {
		p := &s.Pools[i]
		used, _ := claims([]*plan.Pool{p}, waiting, p.Max-p.Target)
		if len(used) == 0 {
			continue
		}
		waste := 0.0
		for _, c := range used {
			waste += float64(c[p].cpu)/float64(p.Template.CPUMilli) + float64(c[p].memory)/float64(p.Template.MemoryMi)
		}
		if waste /= float64(len(used)); !found || waste < least {
			best, least, found = plan.Action{Verb: plan.ScaleUp, Pool: p.Name, From: p.Target, To: p.Target + len(used)}, waste, true
		}
	}
	return best, found
}
