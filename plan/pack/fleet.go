package pack

import (
	"container/heap"
	"math"
)

// Choice is where on a node an Ask goes and what that costs.
type Choice struct {
	Spot Spot
	// Cost orders choices, the lowest is taken; ties go to the node that came
	// first.
	Cost float64
}

// Policy weighs one placement. It sees one node and one ask at a time, and
// equal questions have equal answers: a Fleet asks once for all nodes that are
// in the same state.
type Policy interface {
	// Weigh is asked only for what fits.
	Weigh(n Node, a Ask) Choice
}

// Placed is where a Fleet put an Ask.
type Placed struct {
	Node int // as they were given to NewFleet
	Spot Spot
}

// Fleet is nodes in buckets of equal state. A placement costs as much as there
// are different states, and a state is weighed once for each kind of ask.
type Fleet struct {
	policy  Policy
	asks    map[Ask]int // index into bucket.choices
	buckets []*bucket
	of      map[string]*bucket
	free    int
}

// NewFleet returns nodes under a policy.
func NewFleet(nodes []Node, p Policy) *Fleet {
	f := &Fleet{policy: p, asks: map[Ask]int{}, of: map[string]*bucket{}}
	for i, n := range nodes {
		f.free += n.Free()
		f.add(n, i)
	}
	return f
}

// Free is what all GPUs have left, in thousandths of a GPU.
func (f *Fleet) Free() int { return f.free }

// Each calls visit with every state and how many nodes are in it.
func (f *Fleet) Each(visit func(n Node, nodes int)) {
	for _, b := range f.buckets {
		visit(b.node, len(b.names))
	}
}

// Place puts a where the policy wants it; false when it fits nowhere.
func (f *Fleet) Place(a Ask) (Placed, bool) {
	k, ok := f.asks[a]
	if !ok {
		k = len(f.asks)
		f.asks[a] = k
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

// PlaceAny puts a on any node and any GPU it fits, all alike. draw returns a
// number below its argument. It is false when a fits nowhere.
func (f *Fleet) PlaceAny(a Ask, draw func(n int) int) (Placed, bool) {
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

// put moves the first node of b to where it is after a.
func (f *Fleet) put(b *bucket, a Ask, s Spot) Placed {
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

// bucket is the nodes that are in one state.
type bucket struct {
	node    Node
	key     string
	at      int // in Fleet.buckets
	names   names
	choices []Choice // by ask; the cost is NaN where it was not asked, +Inf where it does not fit
}

// weigh returns what ask k costs in b, +Inf where it does not fit.
func (b *bucket) weigh(k int, a Ask, p Policy) float64 {
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
