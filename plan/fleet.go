package plan

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"sort"
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

// eachNode is the nodes that there are when it begins, with their indices. A pointer is to be fetched
// again once a node has been added.
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
	// unclaimed is a virtual node that no pod of this reconcile uses yet. It was
	// requested in an earlier reconcile and is used where a new one would be: so
	// the same pods get the same options before and after that request.
	unclaimed bool
	name      string
	pool      *poolState // nil for none
	class     int        // of nodes that are equal to selectors and taints
	tier      tier
	since     Reason // verdict when not tierNow
	at        time.Time
	capacity
	facts
	bound        int    // pods that keep it from being empty
	leaving      int    // of those, pods that are leaving
	stuck        []*Pod // of pods, those that are stuck
	leftAt       time.Time
	pods         []*Pod // bound here
	promised     int    // pending pods that will use it
	booting      bool   // the device plugin offers only part of what is coming
	settling     bool   // the scheduler is about to bind pods here
	settlingGang string // the gang whose members that are not made yet are all of these pods, empty for others
	changeAt     time.Time
	expected     []GPU    // the GPUs it will have, for a node that shows none yet
	later        string   // the bound that delays what is reserved here
	repartition  []int    // positions of the GPUs that this plan repartitions
	action       int      // the action that provides it, -1 for none
	decided      verdict  // of scale down: replaces the verdict
	saved        int      // the trial that has journalled it
	derived      *derived // nil for nothing yet, see derive
}

// derived is what follows from the state of a node's GPUs.
type derived struct {
	splits []*split
	// judged is set once candidates, the GPUs that could be repartitioned, and
	// blocked, what prevents it for the others, are known.
	judged     bool
	candidates []candidate
	blocked    causes
	estimates  []estimate // by number of the request
}

type poolState struct {
	*Pool
	index   int      // in the world's pools
	empty   capacity // of a new node
	boot    []split  // its MIG GPUs, all of which may go
	class   int
	base    int     // nodes requested before this plan
	grown   int     // nodes this plan adds
	later   int     // nodes reserved that a later plan adds
	unready int     // nodes that are not ready and should be
	shrunk  int     // nodes this plan removes
	price   float64 // of one node for an hour, see estimatePrices
	// settled are those of shrunk whose removal an earlier plan has decided.
	settled int
	// For scale down: nodes being drained, being replaced, with a sick GPU, empty
	// for long enough; and what this plan does.
	draining, replacing, sick, surplus int
	does                               verdict
	action                             int   // ScaleUp, -1 for none
	spare                              []int // unclaimed nodes
	registered                         []int // its upcoming nodes that have an object
	observed, unobserved               bool  // the allocation of some node is known; of none for long
	stop                               Reason
	keptFor                            string // the gang that its remaining nodes are kept for
	kept                               int32  // and that gang's priority
	why                                string
	requestedAt                        time.Time // when nodes were last requested
	missingSince                       time.Time // since when a node is missing and none has come
	newest                             time.Time // when its newest node was created
	newNodes                           []int     // new nodes that run nothing, see templateMismatch
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

// newPlace is the place of the node that addVirtual adds next.
func (f *fleet) newPlace(p *poolState) place {
	return place{true, fmt.Sprintf("a new node of %s, %d", p.Name, len(f.nodes)), p.Template.Labels, p.Template.Groups}
}

// nextPlace is the place of the pool's next node: an unclaimed upcoming one is used before one is added.
func (f *fleet) nextPlace(p *poolState) place {
	if len(p.spare) > 0 {
		return f.nodes[p.spare[0]].place()
	}
	return f.newPlace(p)
}

func (n *nodeState) upcoming() bool { return n.virtual || n.tier == tierNode }

// place is the node with its labels once it is ready: an upcoming one gets its pool's
// template's, since the device plugin and GFD add theirs.
func (n *nodeState) place() place {
	at := place{n.virtual, n.Node.Name, n.Labels, nil}
	if !n.upcoming() {
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
	if n.upcoming() {
		return n.pool.Template.Taints
	}
	return n.Taints
}

// admits reports whether selectors, taints and volumes let the kind onto the node.
func (n *nodeState) admits(k *kind) bool { return k.judgeOn(n) == fits }

// admitsNew reports whether selectors, taints and volumes let the kind onto a new
// node of a pool.
func (f *fleet) admitsNew(k *kind, p *poolState) bool {
	if k.static != nil && k.static[p.class] != 0 {
		return k.static[p.class] == fits
	}
	return k.judge(p.class, f.newPlace(p), p.Template.Taints) == fits
}

// gpuPrice is the price of one of a node's GPUs for an hour.
func (f *fleet) gpuPrice(node string) float64 {
	i := f.nodeIndex(node)
	if i < 0 || f.nodes[i].pool == nil {
		return 1
	}
	return f.nodes[i].pool.price / f.nodes[i].pool.gpus()
}

// gpusOf is a running pod's demand in GPUs; all of its node's where it is unknown.
func (f *fleet) gpusOf(p *Pod) float64 {
	if i := f.nodeIndex(p.Node); i >= 0 && p.Unreadable != "" {
		return float64(len(f.nodes[i].GPUs))
	}
	return float64(slicesOf(p)) / gpuSlices
}

// estimatePrices sets the prices of all pools. What an unpriced node costs is unknown: it counts
// as if its GPUs cost what the dearest known ones do, and as 1 each where no pool has a price.
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

// gpus is the number of a new node's GPUs by which its price is divided.
func (p *poolState) gpus() float64 { return float64(max(1, len(p.Template.GPUs))) }
