package plan

import (
	"cmp"
	"iter"
	"maps"
	"sort"
	"strconv"
	"strings"
	"time"
)

// fleet is the nodes and the pools. The stages write to them, in a trial only by touch,
// touchPool and addNode.
type fleet struct {
	pools  []*poolState // by name
	nodes  []nodeState  // real ones by name, then upcoming ones
	nodeAt map[string]int
}

// eachNode yields the nodes that exist when it begins, with their indices. Once a node has been added,
// the pointer is stale: take the node by its index.
func (f *fleet) eachNode() iter.Seq2[int, *nodeState] {
	return func(yield func(int, *nodeState) bool) {
		for i := range f.nodes {
			if !yield(i, &f.nodes[i]) {
				return
			}
		}
	}
}

// tier is when a node's free capacity is supply.
type tier uint8

const (
	tierOut    tier = iota // never, as far as is known
	tierNow                // the scheduler can use it
	tierChange             // when its GPUs have been repartitioned
	tierNode               // when the node is ready
)

type nodeState struct {
	*Node        // as in the snapshot, but its GPUs in order; never written to
	virtual bool // it has no object yet
	// unclaimed is set on a virtual node that no pod of this reconcile uses yet. It was
	// requested in an earlier reconcile and is used where a new one would be: so
	// the same pods get the same options before and after that request.
	unclaimed    bool
	name         string
	pool         *poolState // nil for none
	class, heap  int        // numbers of its class, see classify, and of its heap, see heapAt
	tier         tier       // when its free capacity is supply
	since        Reason     // why its tier is not tierNow; its verdict then
	at           time.Time  // from when on its free capacity is supply
	due          time.Time  // the same, where that is over; zero for unknown
	capacity                // free
	facts                   // what its GPUs say together
	bound        int        // pods that keep it from being empty
	leaving      int        // how many of bound are leaving
	stuck        []*Pod     // those of pods that no longer keep it, see Pod.Stuck
	leftAt       time.Time  // when the last of the leaving pods will have left
	pods         []*Pod     // all that are bound to it
	promised     int        // pending pods that will use it
	booting      bool       // the device plugin offers only a part of its instances so far
	settling     bool       // the scheduler is about to bind pods here
	settlingGang string     // the gang of these pods, where all are its members that do not exist yet; else empty
	changeAt     time.Time  // from when on it may be repartitioned
	expected     []GPU      // the GPUs it will have, for a node that shows none yet
	later        string     // the bound that delays what is reserved here, empty for none
	repartition  []int      // positions of the GPUs that this plan repartitions
	action       int        // index of this plan's action that adds or changes it, -1 for none
	decided      verdict    // verdict that a stage decided, instead of the usual one
	saved        int        // the last trial that journalled it
	derived      *derived   // nil until it is used, see derive
}

// derived is what follows from the state of a node's GPUs.
type derived struct {
	splits     []*split    // two for each GPU, see splitGPU
	judged     bool        // candidates and blocked are known
	candidates []candidate // the GPUs that could be repartitioned
	blocked    causes      // what prevents it for the others
	estimates  []estimate  // by number of the request
}

type poolState struct {
	*Pool
	index   int        // in the world's pools
	fresh   *nodeState // a new node, which addVirtual adds a copy of
	boot    []*split   // how each MIG GPU of a new node could be repartitioned
	base    int        // nodes that existed or were requested before this plan
	grown   int        // nodes this plan adds
	later   int        // nodes reserved that a later plan adds
	unready int        // nodes that are not ready and should be
	shrunk  int        // nodes this plan removes
	price   float64    // of one node for an hour, see estimatePrices
	settled int        // how many of shrunk an earlier plan decided to remove
	// Numbers of nodes: drained to be removed, being replaced, with a sick GPU, and empty for
	// long enough to be removed.
	draining, replacing, sick, surplus int
	does                               verdict // what this plan drains or replaces; it is the pool's verdict then
	action                             int     // index of its ScaleUp, -1 for none
	spare                              []int   // its unclaimed nodes
	registered                         []int   // its upcoming nodes that have an object
	// Some node's allocations are known; all nodes' have been unknown for long.
	observed, unobserved bool
	stop                 Reason // why it must not scale up, empty for no reason; why is the detail
	keptFor              string // the gang that its remaining nodes are kept for, empty for none
	kept                 int32  // that gang's priority
	why                  string
	requestedAt          time.Time // when nodes were last requested
	missingSince         time.Time // since when nodes are missing and none has registered
	newest               time.Time // when its newest node was created
	newNodes             []int     // new nodes that run nothing, see templateMismatch
}

func (n *nodeState) derive() *derived {
	if n.derived == nil {
		n.derived = &derived{}
	}
	return n.derived
}

// poolNamed is nil for none.
func (f *fleet) poolNamed(name string) *poolState {
	i, ok := sort.Find(len(f.pools), func(i int) int { return strings.Compare(name, f.pools[i].Name) })
	if !ok || name == "" {
		return nil
	}
	return f.pools[i]
}

func (f *fleet) nodeIndex(name string) int {
	if i, ok := f.nodeAt[name]; ok && name != "" {
		return i
	}
	return -1
}

// nextPlace is the place of the pool's next node: an unclaimed upcoming one is used before one is added.
func (f *fleet) nextPlace(p *poolState) place {
	if len(p.spare) > 0 {
		return f.nodes[p.spare[0]].place()
	}
	at := p.fresh.place()
	at.name = f.nextName(p)
	return at
}

// nextName is the name of the node that addVirtual adds next.
func (f *fleet) nextName(p *poolState) string {
	return p.fresh.name + ", " + strconv.Itoa(len(f.nodes))
}

func (n *nodeState) upcoming() bool { return n.virtual || n.tier == tierNode }

// place is the node with the labels that it has once it is ready. An upcoming node also gets
// those of its pool's template: the device plugin and GFD add theirs only later.
func (n *nodeState) place() place {
	at := place{n.virtual, n.Node.Name, n.Labels, nil}
	if !n.upcoming() || n.pool == nil {
		return at
	}
	at.groups = n.pool.Template.Groups
	template := n.pool.Template.Labels
	if at.labels = template; !n.virtual {
		at.labels = maps.Clone(template)
		maps.Copy(at.labels, n.Labels)
	}
	return at
}

// taintsWhenReady are the node's taints once it is ready: start-up taints are removed then.
func (n *nodeState) taintsWhenReady() []Taint {
	if n.upcoming() && n.pool != nil {
		return n.pool.Template.Taints
	}
	return n.Taints
}

// admits reports whether selectors, taints and volumes let the kind onto the node.
func (n *nodeState) admits(k *kind) bool { return k.judgeOn(n) == fits }

// gpuPrice is the price of one of a node's GPUs for an hour.
func (f *fleet) gpuPrice(node string) float64 {
	i := f.nodeIndex(node)
	if i < 0 || f.nodes[i].pool == nil {
		return 1
	}
	return f.nodes[i].pool.price / f.nodes[i].pool.gpus()
}

// gpusOf is a running pod's demand in GPUs. An unknown demand counts as all GPUs of the node.
func (f *fleet) gpusOf(p *Pod) float64 {
	if i := f.nodeIndex(p.Node); i >= 0 && p.Unreadable != "" {
		return float64(len(f.nodes[i].GPUs))
	}
	return float64(slicesOf(p)) / gpuSlices
}

// estimatePrices sets the prices of all pools. A GPU of an unpriced pool counts as the dearest GPU
// of priced pools, or as 1 where no pool has a price.
func (f *fleet) estimatePrices() {
	dearest := 0.0
	for _, p := range f.pools {
		if p.price = p.PricePerHour; p.price > 0 {
			dearest = max(dearest, p.price/p.gpus())
		}
	}
	for _, p := range f.pools {
		if !(p.price > 0) {
			p.price = cmp.Or(dearest, 1) * p.gpus()
		}
	}
}

// gpus is the number of a new node's GPUs, at least 1, to divide its price by.
func (p *poolState) gpus() float64 { return float64(max(1, len(p.Template.GPUs))) }
