package plan

import "slices"

// spreadPlaces are the places over which a kind is spread by a rule, and the least number
// of the group's pods in any of them.
type spreadPlaces struct {
	kind      *kind
	of        Spread
	values    map[string]bool // the places
	apart     map[string]int  // pods of the group that do not count, by place, see counts
	least, at int             // the least number of pods in a place; how many places have it
	stale     bool            // least has grown, and fewest counts it again
	changes   int             // how often least changed
}

// changed updates the least number when a place's number changes.
func (s *spreadPlaces) changed(was, is int) {
	switch {
	case is < s.least:
		s.least, s.at = is, 1
		s.changes++
	case is == s.least:
		s.at++
	case was == s.least:
		if s.at--; s.at == 0 {
			s.stale = true
			s.changes++
		}
	}
}

// fewest is the number of the group's pods in the place that has the fewest, false where
// there is no place. It counts again where the least has grown.
func (s *spreadPlaces) fewest(pods map[string]int) (int, bool) {
	first := s.stale
	for v := range s.values { // the order has no effect
		if !s.stale {
			break
		}
		switch c := pods[v] - s.apart[v]; {
		case first || c < s.least:
			s.least, s.at, first = c, 1, false
		case c == s.least:
			s.at++
		}
	}
	s.stale = false
	if len(s.values) < s.of.MinDomains {
		return 0, len(s.values) > 0
	}
	return s.least, len(s.values) > 0
}

// spreadOver are the places over which a rule spreads the kind. As in Kubernetes, a cordoned,
// tainted or unready node counts as a place. With HonorTaints it does not if the pod does not
// tolerate that; a node that we cordoned for a repartition still does. A node that does not exist
// yet is no place. But where there are too few places, those of nodes that pools can add or have
// requested count, so that all replicas are served at once.
func (t *topology) spreadOver(k *kind, of Spread) *spreadPlaces {
	if s := k.spreads[of.Rule]; s != nil {
		return s
	}
	s := &spreadPlaces{kind: k, of: of, values: map[string]bool{}, apart: map[string]int{}, stale: true}
	for _, n := range t.fleet.eachNode() {
		if n.virtual || of.HonorTaints && n.closedTo(k.pod) && n.tier != tierChange || !s.counts(n) {
			continue
		}
		at := n.place()
		if value, ok := at.value(of.Key); ok {
			s.values[value] = true
		}
	}
	if len(s.values) < max(of.MinDomains, 1) {
		for _, p := range t.fleet.pools {
			value, ok := p.Template.Labels[of.Key]
			if ok && !p.Fixed && p.stop == "" && (p.base < p.Max || p.Target > p.Size) && p.fresh.admits(k) && k.spreadsOver(p.fresh.place()) {
				s.values[value] = true
			}
		}
	}
	if k.spreads == nil {
		k.spreads = map[Rule]*spreadPlaces{}
	}
	k.spreads[of.Rule] = s
	c := t.rules[of.Rule]
	c.spreads = append(c.spreads, s)
	for node, pods := range c.on { // the order has no effect
		if n := &t.fleet.nodes[node]; !s.counts(n) {
			at := n.place()
			value, _ := at.value(of.Key)
			s.apart[value] += pods
		}
	}
	return s
}

// counts reports whether a rule counts the pods of a node for the kind. It does not where the
// kind's selector excludes the node, or the node lacks a label over which the kind is spread.
// With HonorTaints it also does not where the kind does not tolerate a taint of the node, or
// that the node is out of service.
func (s *spreadPlaces) counts(n *nodeState) bool {
	if !s.of.IgnoreAffinity && s.kind.judgeOn(n) == fitsNot {
		return false
	}
	if _, out := untolerated(s.kind.pod, n.taintsWhenReady()); s.of.HonorTaints && (out || n.tier == tierOut && n.closedTo(s.kind.pod)) {
		return false
	}
	return s.kind.spreadsOver(n.place())
}

// closedTo reports whether a pod does not tolerate that a node is not ready or cordoned.
func (n *nodeState) closedTo(p *Pod) bool {
	return !n.Ready && !tolerated(p.Tolerations, UnreadyTaint) || n.Cordoned && !tolerated(p.Tolerations, CordonTaint)
}

// spreadsOver reports whether a node has all the labels that the kind is spread over:
// a node without one of them counts for none.
func (k *kind) spreadsOver(at place) bool {
	return !slices.ContainsFunc(k.pod.Spread, func(s Spread) bool {
		_, ok := at.value(s.Key)
		return !ok
	})
}
