package sim

import (
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/plan"
)

// hasOthers reports whether a node has enough of the other resources left, and may run one more pod.
func (h *Host) hasOthers(p *plan.Pod) bool {
	if most, limited := amountOf(h.Others, "pods"); limited && int64(len(h.Pods)) >= most {
		return false
	}
	for _, request := range p.Others {
		left, _ := amountOf(h.Others, request.Name)
		if request.Name == "ephemeral-storage" && left == 0 {
			continue // unknown
		}
		for _, q := range h.Pods {
			used, _ := amountOf(q.Others, request.Name)
			left -= used
		}
		if request.Amount > left {
			return false
		}
	}
	return true
}

func amountOf(list []plan.Resource, name string) (int64, bool) {
	i := slices.IndexFunc(list, func(r plan.Resource) bool { return r.Name == name })
	if i < 0 {
		return 0, false
	}
	return list[i].Amount, true
}

// takesPort reports whether a host port of the pod is taken on a node.
func (h *Host) takesPort(p *plan.Pod) bool {
	return len(p.HostPorts) > 0 && slices.ContainsFunc(h.Pods, func(q *plan.Pod) bool { return plan.ConflictsOnHost(*p, *q) })
}

// rulesAllow reports whether the topology rules of the pod, and those of
// running pods, let it onto a node.
func (s *scheduler) rulesAllow(p *plan.Pod, h *Host) bool {
	if s.apart {
		for q, at := range s.running() {
			excludes := func(a, b *plan.Pod) bool {
				return slices.ContainsFunc(a.Apart, func(r plan.Apart) bool {
					return slices.Contains(b.Groups, r.Group) && !slices.Contains(b.Groups, r.Except) && together(at.Node, h.Node, r.Key)
				})
			}
			if excludes(p, q) || excludes(q, p) {
				return false
			}
		}
	}
	return s.near(p, h) && !slices.ContainsFunc(p.Spread, func(r plan.Spread) bool { return !s.even(p, r, h) })
}

// together reports whether two nodes have the same value of a label.
func together(a, b *plan.Node, key string) bool {
	value, ok := a.Place(key)
	other, has := b.Place(key)
	return ok && has && value == other
}

// near reports whether p's near rules allow a node: by each rule, a running pod that is in all
// of p's near groups is in the node's place. Where no such pod is in any place, p is allowed
// if it is in all these groups itself.
func (s *scheduler) near(p *plan.Pod, h *Host) bool {
	all := func(q *plan.Pod) bool {
		return !slices.ContainsFunc(p.Near, func(r plan.Rule) bool { return !slices.Contains(q.Groups, r.Group) })
	}
	there, anywhere := true, false
	if len(p.Near) > 0 && slices.ContainsFunc(s.tried, func(at *plan.Node) bool {
		return !slices.ContainsFunc(p.Near, func(r plan.Rule) bool { return !together(at, h.Node, r.Key) })
	}) {
		return false
	}
	for _, r := range p.Near {
		if _, ok := h.Place(r.Key); !ok {
			return false
		}
		here := false
		for q, at := range s.running() {
			if all(q) {
				_, has := at.Place(r.Key)
				here, anywhere = here || together(at.Node, h.Node, r.Key), anywhere || has
			}
		}
		there = there && here
	}
	return there || !anywhere && all(p)
}

// even reports whether a node's place may have one more pod by a spread rule. Pods that
// leave do not count.
func (s *scheduler) even(p *plan.Pod, r plan.Spread, h *Host) bool {
	selecting := plan.Pod{Tolerations: p.Tolerations, NodeSelector: p.NodeSelector, Affinity: p.Affinity}
	if r.IgnoreAffinity {
		selecting.NodeSelector, selecting.Affinity = nil, nil
	}
	counts := map[string]int{}
	for i := range s.hosts {
		n := &s.hosts[i]
		var taints []plan.Taint
		if r.HonorTaints {
			taints = n.taints()
		}
		lacks := slices.ContainsFunc(p.Spread, func(s plan.Spread) bool { _, has := n.Place(s.Key); return !has })
		if lacks || !plan.Admits(selecting, n.Name, n.Labels, taints) {
			continue
		}
		value, _ := n.Place(r.Key)
		counts[value] += 0 // a place without pods counts too
		for _, q := range n.Pods {
			if !q.Leaving && slices.Contains(q.Groups, r.Group) {
				counts[value]++
			}
		}
	}
	least := 0 // where there are too few places
	if len(counts) > 0 && len(counts) >= r.MinDomains {
		least = slices.Min(slices.Collect(maps.Values(counts)))
	}
	value, ok := h.Place(r.Key)
	after := counts[value]
	if slices.Contains(p.Groups, r.Group) {
		after++
	}
	return ok && after-least <= max(r.MaxSkew, 1)
}
