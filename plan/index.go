package plan

import (
	"container/heap"
	"math"
	"slices"
	"strconv"
)

// index has the nodes that may serve a kind, on one heap for each combination of places
// that topology rules distinguish, or on a single one where no rule concerns the kind.
// Whether the rules open a heap is asked at each use. An entry can become stale when its
// node changes, so best evaluates the first entry of a heap again before it returns the
// node. A kind thus evaluates each node once, not once for each pod.
type index struct {
	built bool
	epoch int // of the kind's rules about hosts when it was built
	heaps []sorted
}

// sorted is a heap of nodes: the soonest first, then the one with the most datasets,
// then the one with the least free capacity, then the first by name.
type sorted []entry

// entry is a node and its value when it was added.
type entry struct {
	at   int64 // when it can serve, in nanoseconds; lower first
	rank int   // among equals in time, lower first; a node with a sick GPU after the others
	node int
}

// unevaluated is the entry of a node that is evaluated when it is first.
func unevaluated(node int) entry { return entry{math.MinInt64, math.MinInt, node} }

func (e entry) before(f entry) bool {
	if e.at != f.at {
		return e.at < f.at
	}
	if e.rank != f.rank {
		return e.rank < f.rank
	}
	return e.node < f.node
}

func (s *index) push(on int, e entry) {
	for len(s.heaps) <= on {
		s.heaps = append(s.heaps, nil)
	}
	s.heaps[on].push(e)
}

func (s *sorted) push(e entry) {
	*s = append(*s, e)
	heap.Fix(s, len(*s)-1)
}

// Len, Less and Swap are heap.Interface's. Push and Pop would allocate for each entry, and are not used.
func (s *sorted) Len() int           { return len(*s) }
func (s *sorted) Less(i, j int) bool { return (*s)[i].before((*s)[j]) }
func (s *sorted) Swap(i, j int)      { (*s)[i], (*s)[j] = (*s)[j], (*s)[i] }
func (s *sorted) Push(any)           {}
func (s *sorted) Pop() any           { return nil }

// best returns the best node of the heaps that are open, -1 for none. value
// returns a node's entry now, false for a node that cannot serve.
func (s *index) best(open func(on int) bool, value func(node int) (entry, bool)) int {
	var first entry
	found := false
	for i := range s.heaps {
		if len(s.heaps[i]) == 0 || !open(i) {
			continue
		}
		if e, ok := s.heaps[i].first(value); ok && (!found || e.before(first)) {
			first, found = e, true
		}
	}
	if !found {
		return -1
	}
	return first.node
}

func (s *sorted) first(value func(node int) (entry, bool)) (entry, bool) {
	for len(*s) > 0 {
		h := *s
		now, ok := value(h[0].node)
		switch {
		case ok && now == h[0]:
			return now, true
		case ok:
			h[0] = now
		default:
			last := len(h) - 1
			h[0] = h[last]
			*s = h[:last]
		}
		heap.Fix(s, 0)
	}
	return entry{}, false
}

// heapAt is the number of the heap of the nodes that no topology rule of any pod tells from this place. Rules about hosts
// do not count: value checks them for each node.
func (t *topology) heapAt(at place) int {
	if t.heaps == nil {
		t.heaps, t.places = map[string]int{}, make([]place, 1) // heap 0 is for kinds without such rules
		for r := range t.rules {
			if r.Key != hostnameLabel && !slices.Contains(t.labels, r.Key) {
				t.labels = append(t.labels, r.Key)
			}
		}
	}
	name := strconv.FormatBool(at.virtual)
	for _, key := range t.labels { // in any order, but always the same
		if v, ok := at.value(key); ok {
			name += "=" + v
		}
		name += "\x00"
	}
	id, known := t.heaps[name]
	if !known {
		id = len(t.places)
		t.heaps[name], t.places = id, append(t.places, at)
	}
	return id
}

// placed reports whether rules of a pod, or about it, tell places larger than a host apart.
func (t *topology) placed(p *Pod) bool {
	of := func(r Rule) bool { return r.Key != hostnameLabel }
	return slices.ContainsFunc(p.Spread, func(s Spread) bool { return of(s.Rule) }) || slices.ContainsFunc(p.Apart, func(a Apart) bool { return of(a.Rule) }) ||
		slices.ContainsFunc(p.Near, of) || slices.ContainsFunc(t.about(p), func(r *ruleCount) bool { return of(r.Rule) })
}

// heapOf is the number of a node's heap in the kind's indices.
func (k *kind) heapOf(n *nodeState) int {
	if !k.placed {
		return 0
	}
	return n.heap
}

// open reports whether the kind's rules let it onto the nodes of a heap.
func (t *topology) open(k *kind) func(on int) bool {
	return func(on int) bool { return !k.placed || t.allows(k, &t.places[on], false) }
}

// value is a node's entry for a kind; false where the node cannot serve it. With upcoming the
// entry orders upcoming nodes by when they are ready; else it orders nodes in service, those with
// a sick GPU last. The node's heap must be open.
func (w *world) value(k *kind, node int, upcoming bool) (entry, bool) {
	if node >= len(w.nodes) {
		return entry{}, false
	}
	n := &w.nodes[node]
	is, at := n.tier == tierNow || w.fitsBeside(k, n), one(n.sick)
	if upcoming {
		is, at = !n.unclaimed && (n.tier == tierChange || n.tier == tierNode), n.at.UnixNano()
	}
	if !is || !n.admits(k) || w.models.lacks(k, &n.capacity) != "" {
		return entry{}, false
	}
	return entry{at, w.models.rank(k, n), node}, w.topology.hostAllows(k, n)
}

// fill adds every node that can serve to the index.
func (w *world) fill(k *kind, s *index, value func(node int) (entry, bool)) {
	s.built, s.epoch = true, w.topology.epoch(k)
	for i := range s.heaps {
		s.heaps[i] = s.heaps[i][:0]
	}
	for i := range w.nodes {
		if e, ok := value(i); ok {
			s.push(k.heapOf(&w.nodes[i]), e)
		}
	}
}

// find is the best node of an index, which is filled first where that has not
// been done.
func (w *world) find(k *kind, s *index, value func(node int) (entry, bool)) int {
	if !s.built || s.epoch != w.topology.epoch(k) {
		w.fill(k, s, value)
	}
	return s.best(w.topology.open(k), value)
}

// tightest returns the node in service that would have the least free capacity
// left, a sick one only where there is no other; -1 for none.
func (w *world) tightest(k *kind) int {
	return w.find(k, &k.usable, func(node int) (entry, bool) { return w.value(k, node, false) })
}

// sound is the tightest node without a sick GPU, -1 for none.
func (w *world) sound(k *kind) int {
	if n := w.tightest(k); n >= 0 && !w.nodes[n].sick {
		return n
	}
	return -1
}

// soonest returns the upcoming node that would serve the kind first, -1 for
// none.
func (w *world) soonest(k *kind) int {
	return w.find(k, &k.upcoming, func(node int) (entry, bool) { return w.value(k, node, true) })
}

// reindex adds a node to the indices again after its free capacity has grown or
// changed. It is evaluated when it is first.
func (w *world) reindex(node int) {
	for _, k := range w.kinds {
		for _, s := range []*index{&k.usable, &k.upcoming, &k.repartitions} {
			if s.built {
				s.push(k.heapOf(&w.nodes[node]), unevaluated(node))
			}
		}
	}
}
