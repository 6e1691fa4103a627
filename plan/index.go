package plan

// index is a heap of the nodes that may serve a kind: the soonest first, then
// the one with the least free capacity, then the first by name. Entries become
// stale as nodes are used, so best evaluates the first again before it returns
// it. A kind thus evaluates each node once, not once for each pod.
type index struct {
	built   bool
	entries []entry
}

// entry is a node and its value when it was added.
type entry struct {
	at   int64 // when it can serve, in nanoseconds; lower first
	rank int   // among equals in time, lower first
	node int
}

func (e entry) before(f entry) bool {
	if e.at != f.at {
		return e.at < f.at
	}
	if e.rank != f.rank {
		return e.rank < f.rank
	}
	return e.node < f.node
}

func (s *index) push(e entry) {
	s.entries = append(s.entries, e)
	i := len(s.entries) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s.entries[i].before(s.entries[up]) {
			return
		}
		s.entries[i], s.entries[up] = s.entries[up], s.entries[i]
		i = up
	}
}

// best returns the best node, -1 for none. value returns a node's entry now,
// false for a node that cannot serve.
func (s *index) best(value func(node int) (entry, bool)) int {
	for len(s.entries) > 0 {
		top := s.entries[0]
		now, ok := value(top.node)
		switch {
		case ok && now == top:
			return top.node
		case ok:
			s.entries[0] = now
		default:
			last := len(s.entries) - 1
			s.entries[0] = s.entries[last]
			s.entries = s.entries[:last]
		}
		s.down()
	}
	return -1
}

// down moves the first entry to its place in the heap.
func (s *index) down() {
	i := 0
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.entries); child++ {
			if s.entries[child].before(s.entries[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		s.entries[i], s.entries[least] = s.entries[least], s.entries[i]
		i = least
	}
}

// valueNow and valueUpcoming are a node's entry for a kind: among nodes in
// service, and among upcoming ones.
func (w *world) valueNow(k *kind, node int) (entry, bool) {
	if node >= len(w.nodes) {
		return entry{}, false
	}
	n := &w.nodes[node]
	if n.tier != tierNow || !w.admits(k, n) || w.lacks(k, &n.capacity) != "" || !w.rulesAllow(k, n) {
		return entry{}, false
	}
	return entry{0, n.spare(), node}, true
}

func (w *world) valueUpcoming(k *kind, node int) (entry, bool) {
	if node >= len(w.nodes) {
		return entry{}, false
	}
	n := &w.nodes[node]
	if n.unclaimed || n.tier != tierChange && n.tier != tierNode || !w.admits(k, n) || w.lacks(k, &n.capacity) != "" || !w.rulesAllow(k, n) {
		return entry{}, false
	}
	return entry{n.at.UnixNano(), n.spare(), node}, true
}

// spare is a node's free capacity for ordering: its slices, weighed by the free
// share of its CPU.
func (n *nodeState) spare() int {
	slices := n.freeSlices()
	if n.virtual || n.CPUMilli <= 0 || n.cpu >= n.CPUMilli {
		return slices * cpuSteps
	}
	return slices * int(max(n.cpu, 0)*cpuSteps/n.CPUMilli)
}

// cpuSteps is the resolution of the free share of CPU.
const cpuSteps = 1000

// fill adds every node that can serve to the index.
func (w *world) fill(s *index, value func(node int) (entry, bool)) {
	s.built, s.entries = true, s.entries[:0]
	for i := range w.nodes {
		if e, ok := value(i); ok {
			s.push(e)
		}
	}
}

// tightest returns the node in service that would have the least free capacity
// left, -1 for none.
func (w *world) tightest(k *kind) int {
	value := func(node int) (entry, bool) { return w.valueNow(k, node) }
	if !k.usable.built || k.tied() {
		w.fill(&k.usable, value)
	}
	return k.usable.best(value)
}

// soonest returns the upcoming node that would serve the kind first, -1 for
// none.
func (w *world) soonest(k *kind) int {
	value := func(node int) (entry, bool) { return w.valueUpcoming(k, node) }
	if !k.upcoming.built || k.tied() {
		w.fill(&k.upcoming, value)
	}
	return k.upcoming.best(value)
}

// reindex adds a node to the indices again after its free capacity has grown or
// changed.
func (w *world) reindex(node int) {
	for i := range w.kinds {
		k := &w.kinds[i]
		if k.usable.built {
			if e, ok := w.valueNow(k, node); ok {
				k.usable.push(e)
			}
		}
		if k.upcoming.built {
			if e, ok := w.valueUpcoming(k, node); ok {
				k.upcoming.push(e)
			}
		}
		if k.repartitions.built {
			// Its value depends on the pod, so it is evaluated when it is first.
			k.repartitions.push(entry{0, 0, node})
		}
	}
}
