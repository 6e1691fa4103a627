package sim

import (
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/plan"
)

// hasOthers reports whether a node has enough of the other resources left, and may run one more pod.
func (s *scheduler) hasOthers(p *plan.Pod, n *plan.Node) bool {
	if i := slices.IndexFunc(n.Others, func(r plan.Resource) bool { return r.Name == "pods" }); i >= 0 {
		left := n.Others[i].Amount
		for j := range s.w.State.Pods {
			if s.w.State.Pods[j].Node == n.Name {
				left--
			}
		}
		if left < 1 {
			return false
		}
	}
	for _, request := range p.Others {
		left := amountOf(n.Others, request.Name)
		if request.Name == "ephemeral-storage" && left == 0 {
			continue // unknown
		}
		for i := range s.w.State.Pods {
			if q := &s.w.State.Pods[i]; q.Node == n.Name {
				left -= amountOf(q.Others, request.Name)
			}
		}
		if request.Amount > left {
			return false
		}
	}
	return true
}

// hasPorts reports whether the pod's host ports are free on a node.
func (s *scheduler) hasPorts(p *plan.Pod, n *plan.Node) bool {
	return len(p.HostPorts) == 0 || !slices.ContainsFunc(s.w.State.Pods, func(q plan.Pod) bool {
		return q.Node == n.Name && plan.ConflictsOnHost(*p, q)
	})
}

func amountOf(list []plan.Resource, name string) int64 {
	for _, r := range list {
		if r.Name == name {
			return r.Amount
		}
	}
	return 0
}

// rulesAllow reports whether the topology rules of the pod, and those of
// running pods, let it onto a node.
func (s *scheduler) rulesAllow(p *plan.Pod, n *plan.Node) bool {
	for _, r := range p.Apart {
		if here, _ := s.beside(n, r.Key, func(q *plan.Pod) bool { return in(q, r) }); here {
			return false
		}
	}
	for _, i := range s.apart {
		q := &s.w.State.Pods[i]
		at := s.node(q.Node)
		for _, r := range q.Apart {
			if at != nil && in(p, r) && together(at, n, r.Key) {
				return false
			}
		}
	}
	if !s.near(p, n) {
		return false
	}
	for _, r := range p.Spread {
		value, ok := n.Place(r.Key)
		more := 0
		if slices.Contains(p.Groups, r.Group) {
			more = 1
		}
		counts := s.spread(p, r)
		least := 0 // where there are too few places
		if len(counts) > 0 && len(counts) >= r.MinDomains {
			least = slices.Min(slices.Collect(maps.Values(counts)))
		}
		if !ok || counts[value]+more-least > max(r.MaxSkew, 1) {
			return false
		}
	}
	return true
}

// in reports whether a rule is about a pod.
func in(p *plan.Pod, r plan.Apart) bool {
	return slices.Contains(p.Groups, r.Group) && !slices.Contains(p.Groups, r.Except)
}

// together reports whether two nodes have the same value of a label.
func together(a, b *plan.Node, key string) bool {
	value, ok := a.Place(key)
	other, has := b.Place(key)
	return ok && has && value == other
}

// near reports whether a pod in all of p's near groups is in the same place, or
// there is none and p is in them itself.
func (s *scheduler) near(p *plan.Pod, n *plan.Node) bool {
	all := func(q *plan.Pod) bool {
		return !slices.ContainsFunc(p.Near, func(r plan.Rule) bool { return !slices.Contains(q.Groups, r.Group) })
	}
	there, anywhere := true, false
	for _, r := range p.Near {
		if _, ok := n.Place(r.Key); !ok {
			return false
		}
		here, some := s.beside(n, r.Key, all)
		there, anywhere = there && here, anywhere || some
	}
	return there || !anywhere && all(p)
}

// beside reports whether such a pod runs where a node is, and whether one does
// anywhere that the label knows.
func (s *scheduler) beside(n *plan.Node, key string, is func(q *plan.Pod) bool) (here, anywhere bool) {
	for i := range s.w.State.Pods {
		q := &s.w.State.Pods[i]
		if at := s.node(q.Node); at != nil && is(q) {
			_, has := at.Place(key)
			here, anywhere = here || together(at, n, key), anywhere || has
		}
	}
	return here, anywhere
}

func (s *scheduler) node(name string) *plan.Node {
	if i, ok := s.at[name]; ok {
		return &s.w.State.Nodes[i]
	}
	return nil
}

// spread counts the group's pods that stay on the nodes that the rule considers, by place.
func (s *scheduler) spread(p *plan.Pod, r plan.Spread) map[string]int {
	selecting := plan.Pod{Tolerations: p.Tolerations, NodeSelector: p.NodeSelector, Affinity: p.Affinity}
	if r.IgnoreAffinity {
		selecting.NodeSelector, selecting.Affinity = nil, nil
	}
	on := map[string]int{}
	for i := range s.w.State.Pods {
		if q := &s.w.State.Pods[i]; !q.Leaving && slices.Contains(q.Groups, r.Group) {
			on[q.Node]++
		}
	}
	counts := map[string]int{}
	for i := range s.w.State.Nodes {
		n := &s.w.State.Nodes[i]
		value, ok := n.Place(r.Key)
		all := !slices.ContainsFunc(p.Spread, func(s plan.Spread) bool { _, has := n.Place(s.Key); return !has })
		taints := n.Taints
		if !r.HonorTaints {
			taints = nil
		} else if !n.Ready || n.Cordoned { // node.kubernetes.io/not-ready and unschedulable
			continue
		}
		if ok && all && plan.Admits(selecting, n.Name, n.Labels, taints) {
			counts[value] += on[n.Name]
		}
	}
	return counts
}
