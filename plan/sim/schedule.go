package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Schedule does what kube-scheduler, a gang scheduler and the device plugins
// would: it binds the most urgent pods first, each to the first node by name
// that fits, or to the one of the highest Score. A gang is tried with its first member, and bound when as many
// members as it needs, running ones included, fit at that moment; further
// members follow one by one. An unmade pod is created when it is bound. Pods
// that fit nowhere are marked unschedulable.
func (w *World) Schedule() []Event {
	slices.SortStableFunc(w.State.Nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
	pending := w.pending()
	if len(pending) == 0 {
		return nil
	}
	s := newScheduler(w, pending)
	for _, i := range pending {
		p := &w.State.Pods[i]
		if p.Gang == "" {
			s.together([]int{i}, 1)
			continue
		}
		if g := s.gangs[p.Gang]; !g.tried {
			g.tried = true
			s.together(g.pending, g.min-g.bound)
		}
	}
	for _, i := range pending {
		p := &w.State.Pods[i]
		if p.Unschedulable = p.Node == ""; !p.Unschedulable {
			w.runs(p)
		}
	}
	return s.events
}

// pending are the pods without a node, in the order of scheduling.
func (w *World) pending() []int {
	var all []int
	for i := range w.State.Pods {
		if p := &w.State.Pods[i]; p.Node == "" && !p.Leaving {
			all = append(all, i)
		}
	}
	pods := w.State.Pods
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(pods[b].Priority, pods[a].Priority), pods[a].PendingSince.Compare(pods[b].PendingSince),
			strings.Compare(pods[a].Key(), pods[b].Key()))
	})
	return all
}

// scheduler is one run of scheduling: usage is counted once.
type scheduler struct {
	w      *World
	used   []usage        // by node
	at     map[string]int // nodes by name
	apart  []int          // pods that exclude a group
	gangs  map[string]*gang
	parts  shares
	events []Event
}

// usage is the requests of a node's pods.
type usage struct{ cpu, memory int64 }

type gang struct {
	min, bound int
	pending    []int
	tried      bool
}

func newScheduler(w *World, pending []int) *scheduler {
	s := &scheduler{w: w, used: make([]usage, len(w.State.Nodes)), gangs: map[string]*gang{}, parts: shares{pods: w.State.Pods, tables: w.State.Tables}}
	s.at = make(map[string]int, len(w.State.Nodes))
	for i := range w.State.Nodes {
		s.at[w.State.Nodes[i].Name] = i
	}
	for i := range w.State.Pods {
		p := &w.State.Pods[i]
		if len(p.Apart) > 0 {
			s.apart = append(s.apart, i)
		}
		if n, ok := s.at[p.Node]; ok {
			s.used[n].cpu += p.CPUMilli
			s.used[n].memory += p.MemoryMi
		}
		if p.Gang == "" {
			continue
		}
		g := s.gangs[p.Gang]
		if g == nil {
			g = &gang{}
			s.gangs[p.Gang] = g
		}
		g.min = max(g.min, p.GangMin)
		if p.Node != "" && !p.Leaving {
			g.bound++
		}
	}
	for _, i := range pending {
		if g := s.gangs[w.State.Pods[i].Gang]; g != nil {
			g.pending = append(g.pending, i)
		}
	}
	return s
}

// step is one bound pod, with what it was before.
type step struct {
	pod    int
	before plan.Pod
	node   int
	gpus   []plan.GPU
	used   usage
}

// together binds as many of the pods as fit, but none where that is fewer than
// need.
func (s *scheduler) together(pods []int, need int) {
	var steps []step
	events := len(s.events)
	for _, i := range pods {
		if t, ok := s.place(i); ok {
			steps = append(steps, t)
		}
	}
	if len(steps) >= need {
		return
	}
	for _, t := range slices.Backward(steps) {
		s.w.State.Pods[t.pod] = t.before
		s.w.State.Nodes[t.node].GPUs = t.gpus
		s.used[t.node] = t.used
	}
	s.events = s.events[:events]
}

// place binds a pod to the node of the highest Score that fits, or to the first.
func (s *scheduler) place(i int) (step, bool) {
	p := &s.w.State.Pods[i]
	j, got := -1, []grant(nil)
	most := int64(0)
	for at := range s.w.State.Nodes {
		here, ok := s.fits(p, at)
		if !ok {
			continue
		}
		if s.w.Score == nil {
			j, got = at, here
			break
		}
		score := s.w.Score(p, &s.w.State.Nodes[at], s.used[at].cpu, s.used[at].memory)
		if j < 0 || score > most {
			j, got, most = at, here, score
		}
	}
	if j < 0 {
		return step{}, false
	}
	n := &s.w.State.Nodes[j]
	t := step{pod: i, before: *p, node: j, gpus: cloneNode(*n).GPUs, used: s.used[j]}
	s.used[j].cpu += p.CPUMilli
	s.used[j].memory += p.MemoryMi
	where := allocate(p, n, got)
	p.Node = n.Name
	if p.Unmade {
		p.Unmade, p.Created = false, s.w.State.Now
	}
	s.events = append(s.events, Event{At: s.w.State.Now, Bound: p.Key(), Since: p.PendingSince, Text: fmt.Sprintf("%s runs on %s%s", p.Key(), n.Name, where)})
	return t, true
}

func (s *scheduler) fits(p *plan.Pod, j int) ([]grant, bool) {
	n, u := &s.w.State.Nodes[j], s.used[j]
	switch {
	case !n.Ready || n.Cordoned:
		return nil, false
	case n.CPUMilli > 0 && u.cpu+p.CPUMilli > n.CPUMilli, n.MemoryMi > 0 && u.memory+p.MemoryMi > n.MemoryMi:
		return nil, false
	case p.Unbound != "", !plan.Admits(*p, n.Name, n.Labels, n.Taints), !s.hasOthers(p, n), !s.hasPorts(p, n), !s.rulesAllow(p, n):
		return nil, false
	}
	return s.parts.choose(p, n)
}

// allocate gives a pod its GPUs and instances and returns their text.
func allocate(p *plan.Pod, n *plan.Node, got []grant) string {
	var names []string
	for _, g := range got {
		device := &n.GPUs[g.device]
		name := fmt.Sprintf("/%d", device.Index)
		if g.instance < 0 {
			device.AllocatedTo = append(device.AllocatedTo, p.Key())
			device.UnusedSince = time.Time{}
		} else {
			in := &device.Instances[g.instance]
			in.AllocatedTo, in.IdleSince, in.UnusedSince = p.Key(), time.Time{}, time.Time{}
			name += " " + plan.LayoutText(device.Model.Name, mig.Layout{in.Placement})
		}
		device.IdleSince = time.Time{}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}
