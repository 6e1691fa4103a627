package pack

import (
	"container/heap"
	"math"
)

// Choice is where on a node a Request goes and what that costs.
type Choice struct {
	Spot Spot
	// Cost orders choices, the lowest is taken; ties go to the first node.
	Cost float64
}

// Policy weighs one placement. It sees one node and one request at a time, and
// must be a function of them: a Fleet weighs all nodes of equal state once.
type Policy interface {
	// Weigh is called only for what fits.
	Weigh(n Node, a Request) Choice
}

// Placed is where a Fleet put a Request.
type Placed struct {
	Node int // as they were given to NewFleet
	Spot Spot
}

// Fleet is nodes in buckets of equal state. A placement costs as much as there
// are different states, and a state is weighed once for each kind of request.
type Fleet struct {
	policy   Policy
	requests map[Request]int // index into bucket.choices
	buckets  []*bucket
	of       map[string]*bucket
	free     int
}

// NewFleet returns nodes under a policy.
func NewFleet(nodes []Node, p Policy) *Fleet {
	f := &Fleet{policy: p, requests: map[Request]int{}, of: map[string]*bucket{}}
	for i, n := range nodes {
		f.free += n.Free()
		f.add(n, i)
	}
	return f
}

// Free is the free capacity of all GPUs, in thousandths of a GPU.
func (f *Fleet) Free() int { return f.free }

// Each calls visit with every state and the number of nodes in it.
func (f *Fleet) Each(visit func(n Node, nodes int)) {
	for _, b := range f.buckets {
		visit(b.node, len(b.names))
	}
}

// Place places a by the policy; false when it fits nowhere.
func (f *Fleet) Place(a Request) (Placed, bool) {
	k, ok := f.requests[a]
	if !ok {
		k = len(f.requests)
		f.requests[a] = k
	}
	var best *bucket
	cost := math.Inf(1)
	for _, b := range f.buckets {
		c := b.weigh(k, a, f.policy)
		if c < cost || c == cost && best != nil && b.names[0] < best.names[0] {
			best, cost = b, c
		}
	}
	if best == nil {
		return Placed{}, false
	}
	return f.put(best, a, best.choices[k].Spot), true
}

// PlaceAny places a on a random node and GPU that it fits. draw returns a
// number below its argument. It is false when a fits nowhere.
func (f *Fleet) PlaceAny(a Request, draw func(n int) int) (Placed, bool) {
	var fits []*bucket
	nodes := 0
	for _, b := range f.buckets {
		if b.node.Fits(a) {
			fits = append(fits, b)
			nodes += len(b.names)
		}
	}
	if nodes == 0 {
		return Placed{}, false
	}
	i, b := draw(nodes), fits[0]
	for k := 1; i >= len(b.names); k++ {
		i -= len(b.names)
		b = fits[k]
	}
	return f.put(b, a, b.node.anySpot(a, draw)), true
}

// put moves the first node of b to its state after a.
func (f *Fleet) put(b *bucket, a Request, s Spot) Placed {
	p := Placed{heap.Pop(&b.names).(int), s}
	after := b.node.Take(a, s)
	f.free += after.Free() - b.node.Free()
	if len(b.names) == 0 {
		f.drop(b)
	}
	f.add(after, p.Node)
	return p
}

func (f *Fleet) add(n Node, name int) {
	key := n.key()
	b, ok := f.of[key]
	if !ok {
		b = &bucket{node: n, key: key, at: len(f.buckets)}
		f.of[key] = b
		f.buckets = append(f.buckets, b)
	}
	heap.Push(&b.names, name)
}

func (f *Fleet) drop(b *bucket) {
	last := f.buckets[len(f.buckets)-1]
	f.buckets[b.at], last.at = last, b.at
	f.buckets = f.buckets[:len(f.buckets)-1]
	delete(f.of, b.key)
}

// bucket is the nodes in one state.
type bucket struct {
	node    Node
	key     string
	at      int // in Fleet.buckets
	names   names
	choices []Choice // by request; the cost is NaN before it is weighed, +Inf where it does not fit
}

// weigh returns the cost of request k in b, +Inf where it does not fit.
func (b *bucket) weigh(k int, a Request, p Policy) float64 {
	for len(b.choices) <= k {
		b.choices = append(b.choices, Choice{Cost: math.NaN()})
	}
	c := &b.choices[k]
	if math.IsNaN(c.Cost) {
		if b.node.Fits(a) {
			*c = p.Weigh(b.node, a)
		} else {
			c.Cost = math.Inf(1)
		}
	}
	return c.Cost
}

// names are the nodes of a bucket: a heap, the first on top.
type names []int

func (h names) Len() int           { return len(h) }
func (h names) Less(i, j int) bool { return h[i] < h[j] }
func (h names) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *names) Push(x any)        { *h = append(*h, x.(int)) }
func (h *names) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
