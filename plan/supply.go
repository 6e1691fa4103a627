package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// maxUpcoming bounds the unregistered nodes of one pool that count as upcoming, so
// that an invalid target does not exhaust memory.
const maxUpcoming = 10000

// judgeNodes computes for every node from when on it is supply, and its free
// capacity.
func (w *world) judgeNodes() {
	w.bindRunning()
	unready, ours := 0, 0
	for i := range w.nodes {
		n := &w.nodes[i]
		w.judgeNode(n)
		if n.pool >= 0 {
			ours++
		}
		if n.pool >= 0 && n.since == NodeUnready {
			unready++
		}
	}
	switch {
	case w.policy.Freeze:
		w.hold = Frozen
	case unready > max(w.policy.OKUnready, 0) && float64(unready) > w.policy.MaxUnready*float64(ours):
		w.hold = TooManyUnready
	}
}

// bindRunning takes the requests of running pods off their nodes' capacity.
func (w *world) bindRunning() {
	w.readGPUs()
	for i := range w.nodes {
		n := &w.nodes[i]
		single := n.Labels[strategySingle] == "single"
		n.booting = w.young(n) && n.Ready && !single && w.halfOffered(n)
		if !n.booting {
			w.limitToOffer(n, single)
		}
	}
	w.sharePods()
	for j, p := range w.running {
		if w.runsOn[j] < 0 {
			continue
		}
		n := &w.nodes[w.runsOn[j]]
		n.pods = append(n.pods, p)
		if !p.DaemonSet {
			n.bound++
		}
		if p.Leaving {
			n.leaving++
			n.leftAt = later(n.leftAt, later(p.LeavesAt, w.now.Add(aMoment)))
			continue
		}
		w.takeRunning(n.onHealthy(p), &n.capacity)
	}
	for i := range w.nodes {
		w.nodes[i].discountAllocated()
	}
}

// supplyGPU adds a GPU to its node's capacity: one being repartitioned by its
// target layout, one whose repartition failed with nothing.
func (w *world) supplyGPU(n *nodeState, c *GPU, single bool) {
	switch o := n.Operation; {
	case o == nil || o.GPU != c.Index:
		n.supply(c, single)
	case w.failed(o):
		n.supplyRepartition(c, nil, single)
	default:
		n.supplyRepartition(c, o.Target, single)
	}
}

// sharePods finds the node of every running pod, and allocates every node's list
// of pods at its final size.
func (w *world) sharePods() {
	w.runsOn = make([]int, len(w.running))
	count := make([]int, len(w.nodes))
	for j, p := range w.running {
		i := w.nodeIndex(p.Node)
		w.runsOn[j] = i
		if i >= 0 {
			count[i]++
		}
	}
	all := make([]*Pod, len(w.running))
	for i, n := range count {
		w.nodes[i].pods, all = all[:0:n], all[n:]
	}
}

// discountAllocated takes off devices allocated to pods that the snapshot does not
// have as bound: a pod that is deleted from the API can keep its GPU for a while.
// It takes nothing off where allocations are unknown.
func (n *nodeState) discountAllocated() {
	if n.leaving > 0 {
		return // devices of leaving pods are counted as free already
	}
	for i := range n.free {
		if f := &n.free[i]; !n.operating() && !n.unknownMIG {
			f.N = min(f.N, countOf(n.unallocated, f.Profile))
		}
	}
	if n.plain > 0 {
		n.whole = min(n.whole, n.plain-n.plainAllocated)
	}
}

// onHealthy is a running pod with what it has of the node's healthy GPUs: sick ones
// are no capacity, so what is allocated of them is not taken from it either.
func (n *nodeState) onHealthy(p *Pod) *Pod {
	if !n.unusual.sick {
		return p
	}
	q, key := *p, p.Key()
	q.Demand.MIG = slices.Clone(p.Demand.MIG)
	for c := range n.GPUs {
		device := &n.GPUs[c]
		switch {
		case device.Health != gpu.Sick:
		case !slices.Contains(device.AllocatedTo, key):
			for i := range device.Instances {
				if in := &device.Instances[i]; in.AllocatedTo == key {
					q.Demand.MIG = without(q.Demand.MIG, device.Model.Name, in.Profile)
				}
			}
		case q.Demand.GPUs > 0:
			q.Demand.GPUs--
		default:
			q.Demand.Fraction = nil
		}
	}
	return &q
}

// without removes one instance of a profile from a request on a model.
func without(request []demand.Instances, model string, p mig.Profile) []demand.Instances {
	name := ProfileText(model, p)
	for i := range request {
		if request[i].Name == name && request[i].Count > 0 {
			request[i].Count--
		}
	}
	return request
}

func (n *nodeState) operating() bool { return n.Operation != nil }

// failed reports whether an operation has to be rolled back.
func (w *world) failed(o *Operation) bool {
	return o.Phase == PhaseFailed || o.Phase != PhaseSucceeded && w.overdueOperation(o)
}

func (w *world) overdueOperation(o *Operation) bool {
	return !o.Deadline.IsZero() && w.now.After(o.Deadline)
}

func (w *world) judgeNode(n *nodeState) {
	n.at = w.now
	n.changeAt = w.now
	if at, ok := stampAt(w.state.LastRepartition, n.name); ok {
		n.changeAt = later(n.changeAt, at.Add(w.policy.RepartitionCooldown))
	}
	young := w.young(n)
	switch {
	case !n.Ready && young, young && w.withoutPlugin(n), n.booting:
		n.tier, n.since = tierNode, NodeUpcoming
		n.at = later(w.now, n.Created.Add(w.pools[n.pool].ReadyAfter))
		n.changeAt = later(n.changeAt, n.at)
		if len(n.GPUs) == 0 {
			n.capacity = w.pools[n.pool].empty.clone()
			n.expected = w.pools[n.pool].Template.GPUs
			n.repartition = make([]bool, len(n.expected))
		}
	case !n.Ready, n.pool >= 0 && w.withoutPlugin(n):
		n.since = NodeUnready
	case n.Operation != nil && n.Operation.Phase == PhasePending && !w.failed(n.Operation):
		n.tier, n.since = tierChange, WaitRepartition
		n.at = later(w.now, n.Operation.Started.Add(w.repartitioning(n)))
		n.changeAt = later(n.changeAt, n.at)
	case n.Drain != nil:
		n.since = NodeDraining
	case n.CordonedBy != "" || n.Operation != nil && !n.Cordoned:
		n.tier, n.since = tierChange, RepartitionDone
		n.changeAt = later(n.changeAt, w.now.Add(aMoment))
	case n.Cordoned:
		n.since = NodeCordoned
	case n.leaving > 0:
		n.tier, n.since, n.at = tierChange, PodLeaving, n.leftAt
		n.changeAt = later(n.changeAt, n.at)
	default:
		n.tier = tierNow
	}
}

// young reports a node of a pool that may still become ready.
func (w *world) young(n *nodeState) bool {
	return n.pool >= 0 && w.now.Sub(n.Created) < w.overdue(&w.pools[n.pool])
}

// withoutPlugin reports a node of a GPU pool that shows no GPU: its device plugin
// is not up yet, or broken.
func (w *world) withoutPlugin(n *nodeState) bool {
	return len(n.GPUs) == 0 && len(w.pools[n.pool].Template.GPUs) > 0
}

// repartitioning is how long a repartition takes on a node.
func (w *world) repartitioning(n *nodeState) time.Duration {
	if n.pool < 0 {
		return 0
	}
	return max(w.pools[n.pool].MIG.Duration, 0)
}

// overdue is how long a node of the pool may take to become ready.
func (w *world) overdue(p *poolState) time.Duration {
	return max(3*min(p.ReadyAfter, 1000*time.Hour), w.policy.NodeOverdue)
}

// judgePools finds the pools that must not scale up now. A pool backs off while it
// has a node that is overdue, for as long as a node may take to become ready; after
// that the node counts as dead and the pool may scale up again. It backs off while
// requested nodes do not register: more of them would come as little.
func (w *world) judgePools() {
	for i := range w.pools {
		p := &w.pools[i]
		if p.Target > p.Size {
			p.requestedAt, _ = stampAt(w.state.LastScaleUp, p.Name)
			if p.requestedAt.IsZero() { // no request is recorded: the time starts now
				p.requestedAt = w.now
				w.state.LastScaleUp = stamped(w.state.LastScaleUp, p.Name, w.now)
			}
		}
		w.judgePool(p)
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		w.noteNewNode(i)
		if n.since != NodeUnready || n.pool < 0 || w.pools[n.pool].Fixed { // no provider is to deliver it
			continue
		}
		p := &w.pools[n.pool]
		if age := w.now.Sub(n.Created); age < 2*w.overdue(p) && p.stop == "" {
			p.stop = BackingOff
			p.why = fmt.Sprintf("%s is not ready after %s, %s were allowed", n.name, short(age), short(w.overdue(p)))
		}
	}
}

func (w *world) judgePool(p *poolState) {
	late := w.now.Sub(p.requestedAt)
	switch {
	case w.hold != "":
		p.stop = w.hold
	case p.Freeze:
		p.stop, p.why = Frozen, "the pool is frozen"
	case p.BackoffUntil.After(w.now):
		p.stop, p.why = BackingOff, "for "+short(p.BackoffUntil.Sub(w.now))+" more"
	case p.Target > p.Size && late > w.overdue(p):
		p.stop = BackingOff
		p.why = fmt.Sprintf("%s requested %s ago did not register, %s were allowed",
			count(p.Target-p.Size, "node"), short(late), short(w.overdue(p)))
	}
}

// addUnregistered adds the nodes that were requested and have no object yet.
func (w *world) addUnregistered() {
	for i := range w.pools {
		p := &w.pools[i]
		if w.now.Sub(p.requestedAt) > w.overdue(p) {
			continue
		}
		at := later(w.now, p.requestedAt.Add(p.ReadyAfter))
		for range min(max(p.Target-p.Size, 0), maxUpcoming) {
			w.addSpare(i, at, -1)
		}
	}
}

// addSpare adds an upcoming node that no pod uses yet.
func (w *world) addSpare(pool int, at time.Time, action int) int {
	n := w.addVirtual(pool, at, action)
	w.nodes[n].unclaimed = true
	p := w.touchPool(pool)
	p.spare = append(p.spare, n)
	return n
}

// addVirtual adds a node of the pool that is ready at the given time, and
// returns its index.
func (w *world) addVirtual(pool int, at time.Time, action int) int {
	p := &w.pools[pool]
	name := "a new node of " + p.Name
	unique := fmt.Sprintf("%s, %d", name, len(w.nodes)) // a place of its own
	return w.addNode(nodeState{Node: &Node{Name: unique, Pool: p.Name}, virtual: true, name: name, pool: pool,
		class: p.class, tier: tierNode, since: NodeUpcoming, at: at, changeAt: at, capacity: p.empty.clone(), action: action,
		expected: p.Template.GPUs, repartition: make([]bool, len(p.Template.GPUs))})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// count is "1 node", "2 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// short prints a duration without a tail of zeros: "5m", "1h30m", "40s".
func short(d time.Duration) string {
	if d >= time.Second || d <= -time.Second {
		d = d.Round(time.Second)
	}
	s := d.String()
	if n := len(s); n > 2 && s[n-2:] == "0s" && s[n-3] == 'm' {
		s = s[:n-2]
	}
	if n := len(s); n > 2 && s[n-2:] == "0m" && s[n-3] == 'h' {
		s = s[:n-2]
	}
	return s
}

// limitToOffer limits a node's free capacity to its allocatable resources less
// the requests of its bound pods. That needs neither attribution nor layouts. A
// sick GPU's devices are never counted, though its device plugin may still
// offer them.
func (w *world) limitToOffer(n *nodeState, single bool) {
	offer := n.Allocatable
	if offer == nil || n.operating() {
		return // while a GPU is repartitioned the device plugin offers nothing
	}
	n.whole = min(n.whole, clampCount(offer.GPUs))
	if single {
		return
	}
	model := n.model
	if model == "" && len(n.GPUs) > 0 {
		model = n.GPUs[0].Model.Name
	}
	table, ok := w.table(model)
	if !ok {
		return
	}
	n.model, n.free = model, nil
	for _, in := range offer.MIG {
		if p, ok := table.Exact(in.Name); ok {
			n.free = added(n.free, p, clampCount(in.Count))
		}
	}
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if device.Health != gpu.Sick || !device.AllocationKnown || device.Model.Name != model {
			continue
		}
		for i := range device.Instances {
			n.free = added(n.free, device.Instances[i].Profile, -1)
		}
	}
}

// halfOffered reports a node whose device plugin has just started: it offers
// less than its GPUs are known to be partitioned into.
func (w *world) halfOffered(n *nodeState) bool {
	if n.Allocatable == nil || n.operating() {
		return false
	}
	var repartition []mig.Count
	unknown := false
	for c := range n.GPUs {
		device := &n.GPUs[c]
		if !device.MIG || device.Model.Name != n.model || device.Health == gpu.Sick {
			continue
		}
		unknown = unknown || !device.AllocationKnown
		for i := range device.Instances {
			repartition = added(repartition, device.Instances[i].Profile, 1)
		}
	}
	if !unknown || len(repartition) == 0 {
		return false
	}
	table, ok := w.table(n.model)
	if !ok {
		return false
	}
	for _, c := range repartition {
		offered := 0
		for _, in := range n.Allocatable.MIG {
			if p, ok := table.Exact(in.Name); ok && p == c.Profile {
				offered += clampCount(in.Count)
			}
		}
		if offered < c.N {
			return true
		}
	}
	return false
}

// allocationDelay is the usual time from a node's creation, or from a pod's
// binding, until allocations are known.
const allocationDelay = 30 * time.Second

// knownAt is when the allocation of a node's GPU is likely to be known. It is
// false after NodeOverdue where other nodes of the pool show that it can be
// known.
func (w *world) knownAt(n *nodeState) (time.Time, bool) {
	since, ok := stampAt(w.state.UnknownSince, n.name)
	if !ok {
		since = w.now
	}
	if w.now.Sub(since) > w.policy.NodeOverdue && !w.pools[n.pool].unobserved {
		return time.Time{}, false
	}
	// The longer it has lasted, the longer it is likely to last.
	return w.now.Add(max(allocationDelay, w.now.Sub(since))), true
}

// recordUnknown records since when nodes have had GPUs of unknown allocation,
// and finds pools that have nothing but such nodes for longer than NodeOverdue:
// a new node would be as unknown, and could not be repartitioned either.
func (w *world) recordUnknown() {
	known, stale := make([]bool, len(w.pools)), make([]bool, len(w.pools))
	var unknown []Stamp
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 || len(n.GPUs) == 0 {
			continue
		}
		if !n.unknown {
			known[n.pool] = true
			continue
		}
		at, ok := stampAt(w.state.UnknownSince, n.name)
		if !ok || at.After(w.now) {
			at = w.now
		}
		stale[n.pool] = stale[n.pool] || w.now.Sub(at) > w.policy.NodeOverdue
		unknown = append(unknown, Stamp{n.name, at})
	}
	w.state.UnknownSince = sortedStamps(unknown)
	for i := range w.pools {
		w.pools[i].unobserved = stale[i] && !known[i]
	}
}

// A pool's template may not match its nodes: a label that no controller sets, a
// taint that the template lacks, less CPU once the node's DaemonSets run. A pod
// that fits only the template would otherwise add a node in every reconcile.

// newNodeFor is how long a node counts as new.
const newNodeFor = time.Hour

// maxNewNodes bounds the nodes of one pool that are compared with its template.
const maxNewNodes = 8

// noteNewNode records a node that is new, in service, and runs no pod.
func (w *world) noteNewNode(i int) {
	n := &w.nodes[i]
	if n.pool < 0 || n.tier != tierNow || n.bound > 0 || w.now.Sub(n.Created) > newNodeFor {
		return
	}
	if p := &w.pools[n.pool]; len(p.newNodes) < maxNewNodes {
		p.newNodes = append(p.newNodes, i)
	}
}

// templateMismatch returns how a node, new since the kind is pending and unused,
// does not fit the kind though the pool's template does; empty where none is
// such.
func (w *world) templateMismatch(k *kind, p *poolState) string {
	since := k.pod.PendingSince
	if since.IsZero() {
		return ""
	}
	for _, i := range p.newNodes {
		n := &w.nodes[i]
		if n.promised > 0 || !n.Created.After(since) {
			continue
		}
		if why := w.nodeMismatch(k, n, p); why != "" {
			return fmt.Sprintf("%s does not match its pool's template: %s", n.name, why)
		}
	}
	return ""
}

// nodeMismatch returns what keeps the kind out of a node, apart from the layout,
// health and allocation of its GPUs.
func (w *world) nodeMismatch(k *kind, n *nodeState, p *poolState) string {
	if !w.admits(k, n) {
		return mismatch(k.pod, n.Labels, n.Taints)
	}
	switch lack := w.lacks(k, &n.capacity); lack {
	case "", "slices":
		return ""
	case wholeGPUs, partOfGPU:
		if have, claimed := len(n.GPUs), len(p.Template.GPUs); have < claimed {
			return fmt.Sprintf("%s, not %d", count(have, "GPU"), claimed)
		}
		return ""
	default:
		return lackText(lack, "too few ")
	}
}
