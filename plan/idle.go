package plan

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// DefaultIdleAfter is the IdleAfter of a pool that states none. It adapts then.
const DefaultIdleAfter = 10 * time.Minute

const (
	// leastIdle is the least time to which an IdleAfter that adapts is shortened.
	leastIdle = time.Minute
	// regretFor is how long a pool keeps empty nodes for all of IdleAfter, once it was scaled up soon after a removal.
	regretFor = 3 * time.Hour
)

// idleAfter is how long a node of a pool must be empty now before it is removed, and that as text.
// To keep a node as long as the next one would take to start costs at most twice what is
// needed, whenever the next pod comes (ski rental). But that pod is pending meanwhile: a pool
// whose pods come back soon after a removal keeps its nodes longer.
func (cond *conditions) idleAfter(p *poolState) (time.Duration, string) {
	quick := max(p.ReadyAfter, leastIdle)
	switch at, again := cond.state.LastRegret[p.Name]; {
	case !p.IdleAdapts || quick >= p.IdleAfter:
		return p.IdleAfter, short(p.IdleAfter)
	case again && cond.within(cond.state.LastRegret, p.Name, regretFor):
		return p.IdleAfter, fmt.Sprintf("%s, since nodes were requested soon after a removal %s ago", short(p.IdleAfter), short(cond.now.Sub(at)))
	}
	return quick, short(quick) + ", as long as a new node takes"
}

// unusedLong is how long an allocated GPU must be unused for the verdict GPUUnused.
const unusedLong = time.Hour

// uses yields for each allocated device of the GPU its pod, and since when it has been unused:
// zero where it is in use or that is unknown. A measurement of the whole GPU applies to its instances.
func (c *GPU) uses() iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		for _, pod := range c.AllocatedTo {
			if !yield(pod, c.UnusedSince) {
				return
			}
		}
		for i := range c.Instances {
			if in := &c.Instances[i]; in.AllocatedTo != "" && !yield(in.AllocatedTo, later(in.UnusedSince, c.UnusedSince)) {
				return
			}
		}
	}
}

// allocated reports whether the GPU, or an instance of it, is known to be allocated.
func (c *GPU) allocated() bool {
	for range c.uses() {
		return true
	}
	return false
}

// idlers names the pods that have not used the GPU, or instances of it, for
// unusedLong, with the longest of those times; empty for none.
func (cond *conditions) idlers(c *GPU) string {
	var pods []string
	longest := time.Duration(0)
	for pod, since := range c.uses() {
		if d := cond.now.Sub(since); !since.IsZero() && d >= unusedLong {
			pods, longest = append(pods, pod), max(longest, d)
		}
	}
	if len(pods) == 0 {
		return ""
	}
	slices.Sort(pods)
	return fmt.Sprintf("not used for %s by %s", short(longest), strings.Join(slices.Compact(pods), ", "))
}

// allocation is what is allocated to a pod.
type allocation struct {
	devices int       // GPUs and instances
	since   time.Time // since when none of them is used
	used    bool      // one of them is in use, or not measured
}

// reclaimIdle evicts pods that have not used their devices for as long as their
// tenant allows, the longest idle first. Of a gang all members must be idle, and none
// may have to stay.
func (w *world) reclaimIdle() {
	if w.idleHold != "" || !slices.ContainsFunc(w.quotas.tenants, func(t Tenant) bool { return t.ReclaimIdle > 0 }) {
		return
	}
	type idler struct {
		placedPod
		idle time.Duration
	}
	allocated := w.allocations()
	var all []idler
	working := map[string]bool{} // gangs
	for _, r := range w.running {
		if idle := w.idleFor(r, allocated[r.pod.Key()]); w.quotas.idleEnough(r.pod, idle) && (r.pod.Gang == "" || w.evictions.movable(r.pod)) {
			all = append(all, idler{r, idle})
		} else if r.pod.Gang != "" && !r.pod.Leaving {
			working[r.pod.Gang] = true
		}
	}
	slices.SortStableFunc(all, func(a, b idler) int { return cmp.Compare(b.idle, a.idle) })
	for _, i := range all {
		if !working[i.pod.Gang] {
			w.reclaimPod(i.placedPod, i.idle)
		}
	}
}

// reclaimPod evicts one idle pod, where that is allowed now.
func (w *world) reclaimPod(r placedPod, idle time.Duration) {
	p, n := r.pod, &w.nodes[r.node]
	if n.pool == nil || n.action >= 0 || n.tier != tierNow && n.since != PodLeaving ||
		!w.may(n.pool) || w.actions.evicted >= w.policy.MaxEvictionsPerReconcile || !w.evictions.movable(p) {
		return
	}
	t := &w.quotas.tenants[w.quotas.tenantIndex(p)]
	w.evict(r.node, p, ReclaimIdle, fmt.Sprintf("%s has not used its GPUs for %s; %s reclaims them after %s",
		p.Key(), short(idle), t.Name, short(t.ReclaimIdle)), "")
}

// idleFor is how long a pod has used none of its devices, 0 where it uses one, or
// where not all it requests is known to be allocated to it and measured.
func (w *world) idleFor(r placedPod, h allocation) time.Duration {
	if r.node < 0 || h.devices == 0 || h.used || h.devices < devicesOf(r.pod) || w.nodes[r.node].unknown {
		return 0
	}
	return w.now.Sub(later(h.since, r.pod.Created))
}

// devicesOf is how many GPUs and instances a pod requests.
func devicesOf(p *Pod) int {
	n := clampCount(p.Demand.GPUs)
	for i := range p.Demand.MIG {
		n += clampCount(p.Demand.MIG[i].Count)
	}
	if f := p.Demand.Fraction; f != nil {
		n += clampCount(max(f.GPUs, 1))
	}
	return n
}

// allocations is the allocation of every pod, over all nodes.
func (f *fleet) allocations() map[string]allocation {
	all := map[string]allocation{}
	for i := range f.nodes {
		for c := range f.nodes[i].GPUs {
			for pod, since := range f.nodes[i].GPUs[c].uses() {
				h := all[pod]
				all[pod] = allocation{h.devices + 1, later(h.since, since), h.used || since.IsZero()}
			}
		}
	}
	return all
}

// holdIdle stops actions on idle nodes and pods while too much of the fleet
// became idle at about the same time: a large job may have ended, or the
// metrics may be wrong.
func (w *world) holdIdle() {
	ours, idle := 0, 0
	for _, n := range w.eachNode() {
		if n.pool == nil || n.tier != tierNow {
			continue
		}
		ours++
		if d, ok := w.looksIdle(n); ok && d < w.policy.IdleHold {
			idle++
		}
	}
	if idle > max(w.policy.OKIdle, 0) && float64(idle) > w.policy.MaxIdleAtOnce*float64(ours) {
		w.idleHold = fmt.Sprintf("%d of %d nodes became idle within %s", idle, ours, short(w.policy.IdleHold))
	}
}

// looksIdle is how long a node has been idle: nothing is allocated there, or no allocated
// device is used. It is false where a device is in use, or where that is unknown.
func (cond *conditions) looksIdle(n *nodeState) (time.Duration, bool) {
	reason, idle := cond.emptiness(n)
	if reason == NodeEmpty {
		return idle, true
	}
	if n.unknown || !n.hasUnused {
		return 0, false
	}
	idle = math.MaxInt64
	for c := range n.GPUs {
		for _, since := range n.GPUs[c].uses() {
			if since.IsZero() {
				return 0, false
			}
			idle = min(idle, cond.now.Sub(since))
		}
	}
	return idle, true
}
