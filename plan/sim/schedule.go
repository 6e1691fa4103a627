package sim

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Schedule does what kube-scheduler, a gang scheduler and the device plugins
// would. It binds the most urgent pods first, each to the first node by name
// that fits, or with Score to the node of the highest score. A gang is tried when its
// first member is due. Its members that fit are bound if, with the running ones, they are
// at least GangMin; further members follow one by one. An unmade pod is created when it
// is bound. Pods that fit nowhere are marked unschedulable.
func (w *World) Schedule() []Event {
	slices.SortStableFunc(w.State.Nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
	pending := w.pending()
	if len(pending) == 0 {
		return nil
	}
	s := &scheduler{w: w, hosts: Hosts(&w.State), nominees: map[string][]*plan.Pod{}, apart: slices.ContainsFunc(w.State.Pods, func(p plan.Pod) bool { return len(p.Apart) > 0 })}
	for _, p := range pending {
		if node, ok := w.nominated[p.Key()]; ok {
			s.nominees[node] = append(s.nominees[node], p)
		}
	}
	tried := map[string]bool{}
	for _, p := range pending {
		if p.Gang == "" {
			s.together([]*plan.Pod{p}, 1)
		} else if !tried[p.Gang] {
			tried[p.Gang] = true
			s.together(s.gang(p.Gang, pending))
		}
	}
	for _, p := range pending {
		if p.Unschedulable = p.Node == ""; !p.Unschedulable {
			w.runs(p)
		}
		if n := w.node(w.nominated[p.Key()]); n == nil || n.Ready { // it was tried there
			delete(w.nominated, p.Key())
		}
	}
	return s.events
}

// pending are the pods without a node, in the order of scheduling.
func (w *World) pending() []*plan.Pod {
	var all []*plan.Pod
	for i := range w.State.Pods {
		if p := &w.State.Pods[i]; p.Node == "" && !p.Leaving {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *plan.Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.PendingSince.Compare(b.PendingSince), strings.Compare(a.Key(), b.Key()))
	})
	return all
}

// scheduler is one run of scheduling.
type scheduler struct {
	w      *World
	hosts  []Host       // by name
	apart  bool         // a pod has an Apart rule
	tried  []*plan.Node // in places that are too small for the pods that are bound together
	events []Event
	// nominees are, by node, the pending pods that are nominated for it.
	nominees map[string][]*plan.Pod
}

// Host is a node and what runs there.
type Host struct {
	*plan.Node
	Pool        *plan.Pool // nil for none
	Pods        []*plan.Pod
	CPU, Memory int64 // what Pods request: thousandths of a core, MiB
}

// Hosts returns the nodes of a snapshot, in its order.
func Hosts(s *plan.Snapshot) []Host {
	hosts, at, pools := make([]Host, len(s.Nodes)), make(map[string]*Host, len(s.Nodes)), map[string]*plan.Pool{}
	for i := range s.Pools {
		pools[s.Pools[i].Name] = &s.Pools[i]
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		hosts[i] = Host{Node: n, Pool: pools[n.Pool]}
		at[n.Name] = &hosts[i]
	}
	for i := range s.Pods {
		if h := at[s.Pods[i].Node]; h != nil {
			h.add(&s.Pods[i])
		}
	}
	return hosts
}

func (h *Host) add(p *plan.Pod) {
	h.Pods = append(h.Pods, p)
	h.CPU, h.Memory = h.CPU+p.CPUMilli, h.Memory+p.MemoryMi
}

// running ranges over the pods that have a node, each with its node.
func (s *scheduler) running() iter.Seq2[*plan.Pod, *Host] {
	return func(yield func(*plan.Pod, *Host) bool) {
		for i := range s.hosts {
			for _, p := range s.hosts[i].Pods {
				if !yield(p, &s.hosts[i]) {
					return
				}
			}
		}
	}
}

// gang returns a gang's pending members, and how many of them must be bound at once.
func (s *scheduler) gang(name string, pending []*plan.Pod) (members []*plan.Pod, need int) {
	for _, p := range pending {
		if p.Gang == name {
			members = append(members, p)
		}
	}
	bound := 0
	for i := range s.w.State.Pods {
		if p := &s.w.State.Pods[i]; p.Gang == name {
			need = max(need, p.GangMin)
			if p.Node != "" && !p.Leaving {
				bound++
			}
		}
	}
	return members, need - bound
}

// together binds as many of the pods as fit, but none where that is fewer than need. Pods that must be near each other
// are tried in one place after the other, as by Kueue's topology aware scheduling.
func (s *scheduler) together(pods []*plan.Pod, need int) {
	for s.tried = nil; ; {
		var undo []func()
		var first *plan.Node // of those that must be near others
		events := len(s.events)
		for _, p := range pods {
			if release := s.place(p); release != nil {
				if undo = append(undo, release); first == nil && len(p.Near) > 0 {
					first = s.w.node(p.Node)
				}
			}
		}
		if len(undo) >= need {
			return
		}
		for _, release := range slices.Backward(undo) {
			release()
		}
		if s.events = s.events[:events]; first == nil {
			return
		}
		s.tried = append(s.tried, first)
	}
}

// place binds a pod to its nominated node if it fits there, as kube-scheduler does (1.37, pkg/scheduler/schedule_one.go:
// evaluateNominatedNode), else to the fitting node of the highest score, or without Score to the first one. It returns
// a function that undoes that, nil where no node fits.
func (s *scheduler) place(p *plan.Pod) (undo func()) {
	var best *Host
	var got []grant
	most, nominated := int64(0), s.w.nominated[p.Key()]
	for i := range s.hosts {
		h := &s.hosts[i]
		here, ok := s.fits(p, h)
		if !ok || !s.leavesNominated(p, h) {
			continue
		}
		if nominated == h.Name {
			best, got = h, here
			break
		}
		score := int64(0)
		if s.w.Score != nil {
			score = s.w.Score(p, h.Node, h.CPU, h.Memory)
		}
		if best == nil || score > most {
			best, got, most = h, here, score
		}
		if s.w.Score == nil && nominated == "" {
			break
		}
	}
	if best == nil {
		return nil
	}
	pod, was, gpus := *p, *best, cloneNode(*best.Node).GPUs
	where := allocate(p, got)
	p.Node = best.Name
	best.add(p)
	if p.Unmade {
		p.Unmade, p.Created = false, s.w.State.Now
	}
	s.events = append(s.events, Event{s.w.State.Now, fmt.Sprintf("%s runs on %s%s", p.Key(), p.Node, where)})
	return func() { *p, *best, best.GPUs = pod, was, gpus }
}

// leavesNominated reports whether a pod fits a node beside other pending pods: those that are nominated for the node
// and have the pod's priority or a higher one.
func (s *scheduler) leavesNominated(p *plan.Pod, h *Host) bool {
	others := slices.DeleteFunc(slices.Clone(s.nominees[h.Name]), func(q *plan.Pod) bool { return q == p || q.Node != "" || q.Priority < p.Priority })
	if len(others) == 0 {
		return true
	}
	n := cloneNode(*h.Node)
	with := *h
	with.Node, with.Pods = &n, slices.Clone(h.Pods)
	for _, q := range others {
		if got, ok := s.fits(q, &with); ok {
			allocate(q, got)
			with.add(q)
		}
	}
	_, ok := s.fits(p, &with)
	return ok
}

func (s *scheduler) fits(p *plan.Pod, h *Host) ([]grant, bool) {
	switch {
	case !h.Ready, p.Unbound != "",
		!enough(p.CPUMilli, h.CPU, h.CPUMilli), !enough(p.MemoryMi, h.Memory, h.MemoryMi),
		!plan.Admits(*p, h.Name, h.Labels, h.taints()), !h.offersGPUs(p), !h.hasOthers(p), h.takesPort(p), !s.rulesAllow(p, h):
		return nil, false
	}
	return s.choose(p, h.Node)
}

// offersGPUs reports whether a node offers as many whole GPUs as a pod requests, besides those that its pods
// request: the scheduler counts, and does not know which GPU is whose.
func (h *Host) offersGPUs(p *plan.Pod) bool {
	if h.Allocatable == nil || p.Demand.GPUs == 0 {
		return true
	}
	left := h.Allocatable.GPUs - p.Demand.GPUs
	for _, running := range h.Pods {
		left -= running.Demand.GPUs
	}
	return left >= 0
}

// taints returns a node's taints, with those of a cordoned and of an unready node.
func (h *Host) taints() []plan.Taint {
	all := slices.Clip(h.Taints)
	if h.Cordoned {
		all = append(all, plan.CordonTaint)
	}
	if !h.Ready {
		all = append(all, plan.UnreadyTaint)
	}
	return all
}

// enough reports whether a node has enough of a resource beside what is requested of it already. As in
// kube-scheduler, a pod that requests none fits where more is requested than there is. all is 0 for no limit.
func enough(request, requested, all int64) bool {
	return request <= 0 || all <= 0 || requested+request <= all
}

// allocate gives a pod its GPUs and instances and returns their text.
func allocate(p *plan.Pod, got []grant) string {
	var names []string
	for _, g := range got {
		name := fmt.Sprintf("/%d", g.device.Index)
		if in := g.instance; in != nil {
			in.AllocatedTo, in.IdleSince, in.UnusedSince = p.Key(), time.Time{}, time.Time{}
			name += " " + plan.LayoutText(g.device.Model.Name, mig.Layout{in.Placement})
			if g.device.ByClaim {
				g.device.MIG, g.device.Instances = true, append(g.device.Instances, *in)
				slices.SortFunc(g.device.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
			}
		} else {
			g.device.AllocatedTo = append(g.device.AllocatedTo, p.Key())
			g.device.UnusedSince = time.Time{}
		}
		g.device.IdleSince = time.Time{}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}
