package plan

import "slices"

// spreadPlaces are the places over which a kind is spread, and the least number
// of the group's pods in any of them.
type spreadPlaces struct {
	values    map[string]bool
	least, at int  // at: how many places have the least
	stale     bool // the least has grown
	changes   int  // of the least
}

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

// count counts again where the least has grown.
func (s *spreadPlaces) count(pods map[string]int) {
	if !s.stale {
		return
	}
	first := true
	for v := range s.values { // the order has no effect
		switch c := pods[v]; {
		case first || c < s.least:
			s.least, s.at, first = c, 1, false
		case c == s.least:
			s.at++
		}
	}
	s.stale = false
}

// fewestAt is the number of the group's pods in the place that has the fewest,
// false where there is no place.
func (w *world) fewestAt(k *kind, of Spread) (int, bool) {
	s := w.spreadOver(k, of)
	s.count(w.topology.count(of.Rule).pods)
	if len(s.values) < of.MinDomains {
		return 0, len(s.values) > 0
	}
	return s.least, len(s.values) > 0
}

// spreadOver are the places over which a rule spreads the kind. As in Kubernetes, a
// node that is cordoned, tainted or not ready counts as a place, unless taints are
// honored; one that does not exist yet does not, but where there are too few places,
// those that pools can add do: all replicas are served at once then.
func (w *world) spreadOver(k *kind, of Spread) *spreadPlaces {
	if s := k.spreads[of.Rule]; s != nil {
		return s
	}
	s := &spreadPlaces{values: map[string]bool{}, stale: true}
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || !of.IgnoreAffinity && !w.admitsTainted(k, n) {
			continue
		}
		labels, taints := w.labelsAndTaints(n)
		if _, out := untolerated(k.pod, taints); of.HonorTaints && (out || !n.Ready || n.Cordoned) {
			continue
		}
		if value, ok := n.place(labels, of.Key); ok && k.spreadsOver(n.Node.Name, labels) {
			s.values[value] = true
		}
	}
	if len(s.values) < max(of.MinDomains, 1) {
		for i := range w.pools {
			p := &w.pools[i]
			value, ok := p.Template.Labels[of.Key]
			if ok && !p.Fixed && p.stop == "" && p.base < p.Max && k.admitsNew(p) && k.spreadsOver("", p.Template.Labels) {
				s.values[value] = true
			}
		}
	}
	if k.spreads == nil {
		k.spreads = map[Rule]*spreadPlaces{}
	}
	k.spreads[of.Rule] = s
	if c := w.topology.rules[of.Rule]; c != nil {
		c.spreads = append(c.spreads, s)
	}
	return s
}

// spreadsOver reports whether a node's labels have all the keys that the kind
// is spread over: a node without one of them counts for none.
func (k *kind) spreadsOver(name string, labels map[string]string) bool {
	return !slices.ContainsFunc(k.pod.Spread, func(s Spread) bool {
		_, ok := placeOf(labels, name, s.Key)
		return !ok
	})
}
