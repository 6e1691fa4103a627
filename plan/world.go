package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// world is Make's working copy: what is there, what is on its way, and what
// has been given to whom so far.
type world struct {
	now    time.Time
	policy Policy
	memory Memory
	hold   Reason // why nothing at all is done, empty for no reason

	pools   []poolState
	nodes   []nodeState // real ones by name, then those on their way
	classes int
	kinds   []kind
	pending []pending // most urgent first
	running []*Pod

	actions []Action
	answers map[string]answer // of pack.Target, by question
}

type answer struct {
	pack.Answer
	ok bool
}

// pending is a pod that waits.
type pending struct {
	pod    *Pod
	kind   int
	served bool // by what is there or on its way, or by an action of this plan
	reason Reason
	detail string
}

// tier says when a node's room is supply.
type tier uint8

const (
	tierOut    tier = iota // never, as far as one can tell
	tierNow                // the scheduler can use it
	tierChange             // when its cards have been cut
	tierNode               // when the node is ready
)

type nodeState struct {
	*Node
	virtual bool // there is no object of it yet
	// unopened is a virtual node that no pod of this round uses yet. It was paid
	// for in an earlier round, and is used where one would be bought: so that the
	// same pods come to the same answers before and after it was asked for.
	unopened bool
	name     string
	pool     int // index, -1 for none
	class    int // of nodes that are alike to selectors and taints
	tier     tier
	since    Reason // verdict when not tierNow
	at       time.Time
	room
	bound    int  // pods that keep it from being empty
	promised int  // pending pods that will use it
	booting  bool // the device plugin offers only part of what is coming
	settling bool // the scheduler is about to bind pods here
	changeAt time.Time
	expected []Card // what it will have, for a node that shows no cards yet
	cut      []bool // cards, by position, that this plan cuts
	action   int    // that brings it about, -1 for none
	splits   []*split
}

type poolState struct {
	*Pool
	empty  room // of a new node
	class  int
	base   int   // nodes asked for before this plan
	grown  int   // nodes this plan adds
	shrunk int   // nodes this plan removes
	action int   // ScaleUp, -1 for none
	spare  []int // unopened nodes
	blind  bool  // nobody has known for long who holds what on any of its nodes
	stop   Reason
	why    string
	asked  time.Time // when nodes were last asked for
}

// newWorld sorts and indexes the snapshot and works out what is supply when.
func newWorld(s Snapshot, p Policy) *world {
	w := &world{now: s.Now, policy: p, answers: map[string]answer{}}
	w.memory = Memory{
		LastScaleUp: sortedStamps(s.Memory.LastScaleUp), LastScaleDown: sortedStamps(s.Memory.LastScaleDown),
		LastRepartition: sortedStamps(s.Memory.LastRepartition), FreeSince: sortedStamps(s.Memory.FreeSince),
		UnknownSince: sortedStamps(s.Memory.UnknownSince),
	}
	w.addPools(s.Pools)
	w.addNodes(s.Nodes)
	w.addPods(s.Pods)
	w.judgeNodes()
	w.judgePools()
	w.addUnregistered()
	return w
}

func (w *world) addPools(pools []Pool) {
	sorted := slices.Clone(pools)
	slices.SortStableFunc(sorted, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	for i := range sorted {
		p := &sorted[i]
		ps := poolState{Pool: p, action: -1, base: max(p.Target, p.Size, 0)}
		ps.empty = room{cpu: stated(p.Template.CPUMilli), memory: stated(p.Template.MemoryMi)}
		single := p.Template.Labels[strategySingle] == "single"
		for c := range p.Template.Cards {
			card := &p.Template.Cards[c]
			ps.empty.supply(card, layoutOf(card), single)
		}
		w.pools = append(w.pools, ps)
	}
}

func (w *world) poolIndex(name string) int {
	i, ok := slices.BinarySearchFunc(w.pools, name, func(p poolState, n string) int { return strings.Compare(p.Name, n) })
	if !ok || name == "" {
		return -1
	}
	return i
}

func (w *world) nodeIndex(name string) int {
	i, ok := slices.BinarySearchFunc(w.nodes, name, func(n nodeState, s string) int { return strings.Compare(n.name, s) })
	if !ok || name == "" {
		return -1
	}
	return i
}

func (w *world) addNodes(nodes []Node) {
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range sorted {
		n := &sorted[i]
		n.Cards = slices.Clone(n.Cards)
		slices.SortStableFunc(n.Cards, func(a, b Card) int { return cmp.Compare(a.Index, b.Index) })
		for c := range n.Cards {
			n.Cards[c].Instances = sortedInstances(n.Cards[c].Instances)
		}
		w.nodes = append(w.nodes, nodeState{Node: n, name: n.Name, pool: w.poolIndex(n.Pool), class: i, action: -1,
			cut: make([]bool, len(n.Cards))})
	}
	for i := range w.pools {
		w.pools[i].class = len(sorted) + i
	}
	w.classes = len(sorted) + len(w.pools)
}

// sortedInstances copies only what is not in order.
func sortedInstances(in []Instance) []Instance {
	compare := func(a, b Instance) int {
		return cmp.Or(a.Placement.Compare(b.Placement), strings.Compare(a.Holder, b.Holder), a.IdleSince.Compare(b.IdleSince))
	}
	if slices.IsSortedFunc(in, compare) {
		return in
	}
	out := slices.Clone(in)
	slices.SortFunc(out, compare)
	return out
}

func (w *world) addPods(pods []Pod) {
	sorted := make([]*Pod, len(pods))
	for i := range pods {
		sorted[i] = &pods[i]
	}
	orderPending(sorted)
	kinds := map[string]int{}
	for _, p := range sorted {
		if p.Node != "" {
			w.running = append(w.running, p)
			continue
		}
		key := kindKey(p)
		k, ok := kinds[key]
		if !ok {
			k = len(w.kinds)
			kinds[key] = k
			w.kinds = append(w.kinds, w.newKind(p))
		}
		w.pending = append(w.pending, pending{pod: p, kind: k})
	}
}

func (w *world) newKind(p *Pod) kind {
	return kind{pod: p, wants: wantsText(p), eq: float64(slicesOf(p)) / cardSlices, static: make([]verdictOnce, w.classes)}
}

// layoutOf returns a card's instances as a sorted layout.
func layoutOf(c *Card) mig.Layout {
	l := make(mig.Layout, 0, len(c.Instances))
	for _, i := range c.Instances {
		l = append(l, i.Placement)
	}
	return mig.NewLayout(l...)
}

// needOf translates the kind's MIG demand into a model's profiles; false where
// the model has no such profile.
func (w *world) needOf(k *kind, model string) ([]mig.Count, bool) {
	if len(k.pod.Demand.MIG) == 0 || model == "" {
		return nil, len(k.pod.Demand.MIG) == 0
	}
	for _, n := range k.needs {
		if n.model == model {
			return n.counts, n.ok
		}
	}
	n := need{model: model}
	if t, ok := mig.ForModel(model); ok {
		n.ok = true
		for _, i := range k.pod.Demand.MIG {
			p, ok := t.Exact(i.Name)
			n.ok = n.ok && ok
			n.counts = added(n.counts, p, clampCount(i.Count))
		}
	}
	if !n.ok {
		n.counts = nil
	}
	k.needs = append(k.needs, n)
	return n.counts, n.ok
}

// admits reports whether selectors and taints let the kind onto a node.
func (w *world) admits(k *kind, n *nodeState) bool {
	if k.static[n.class] == 0 {
		labels, taints := w.face(n)
		k.judge(n.class, labels, taints)
	}
	return k.static[n.class] == 1
}

// admitsNew reports the same of a new node of a pool.
func (k *kind) admitsNew(p *poolState) bool {
	if k.static[p.class] == 0 {
		k.judge(p.class, p.Template.Labels, p.Template.Taints)
	}
	return k.static[p.class] == 1
}

func (k *kind) judge(class int, labels map[string]string, taints []Taint) {
	k.static[class] = 2
	if _, out := untolerated(k.pod, taints); !out && fitsLabels(k.pod, labels) {
		k.static[class] = 1
	}
}

// face is what selectors and taints see of a node. One that is on its way shows
// its pool's template: start-up taints go, and labels that only the device
// plugin or GFD set will come.
func (w *world) face(n *nodeState) (map[string]string, []Taint) {
	if !n.virtual && n.tier != tierNode {
		return n.Labels, n.Taints
	}
	template := &w.pools[n.pool].Template
	if n.virtual {
		return template.Labels, template.Taints
	}
	labels := make(map[string]string, len(n.Labels)+len(template.Labels))
	for k, v := range template.Labels {
		labels[k] = v
	}
	for k, v := range n.Labels {
		labels[k] = v
	}
	return labels, template.Taints
}
