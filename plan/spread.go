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
func (w *world) fewestAt(k *kind, r Rule) (int, bool) {
	s := w.spreadOver(k, r)
	s.count(w.topology.count(r).pods)
	return s.least, len(s.values) > 0
}

// spreadOver are the places over which a rule spreads the kind, of those that
// its selector and affinity admit. As in Kubernetes, a node that is cordoned,
// tainted or not ready counts as a place; one that does not exist yet does not.
func (w *world) spreadOver(k *kind, r Rule) *spreadPlaces {
	if s := k.spreads[r]; s != nil {
		return s
	}
	s := &spreadPlaces{values: map[string]bool{}, stale: true}
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || !w.admitsTainted(k, n) {
			continue
		}
		labels, _ := w.labelsAndTaints(n)
		if value, ok := n.place(labels, r.Key); ok && k.spreadsOver(n, labels) {
			s.values[value] = true
		}
	}
	if k.spreads == nil {
		k.spreads = map[Rule]*spreadPlaces{}
	}
	k.spreads[r] = s
	if c := w.topology.rules[r]; c != nil {
		c.spreads = append(c.spreads, s)
	}
	return s
}

// spreadsOver reports whether a node's labels have all the keys that the kind
// is spread over: a node without one of them counts for none.
func (k *kind) spreadsOver(n *nodeState, labels map[string]string) bool {
	return !slices.ContainsFunc(k.pod.Spread, func(s Spread) bool {
		_, ok := n.place(labels, s.Key)
		return !ok
	})
}
