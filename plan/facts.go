package plan

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// facts is what a node's GPUs say together.
type facts struct {
	notFree    Reason        // NodeBusy or AllocationUnknown, by the first GPU that is not free; empty where all are free
	idle       time.Duration // how long all of them have been free
	unstated   bool          // the snapshot does not state since when some free GPU has been free
	unknown    bool          // the allocation of some GPU is not known
	unknownMIG bool          // the allocation of some MIG GPU is not known
	sick       bool          // a GPU is broken
	hasUnused  bool          // an allocated device was measured idle
	addable    bool          // an instance can perhaps be added to a GPU
	// plainUnallocated is the number of unallocated GPUs without MIG, unallocated are the unallocated instances. Sick
	// GPUs do not count.
	plainUnallocated int
	unallocated      []mig.Count
}

// readGPUs reads each GPU once, since there are many, far apart in memory: its capacity, its
// allocations, what is unusual about it, and the verdict on it unless a stage decides
// another. others is about the number of the other verdicts.
func (w *world) readGPUs(others int) {
	total := 0
	for i := range w.nodes {
		total += len(w.nodes[i].Node.GPUs)
	}
	w.gpuVerdicts = make([]Verdict, total, total+others)
	all := w.gpuVerdicts
	var table *mig.Table
	var model gpu.Model // there are many GPUs and few models
	for _, n := range w.eachNode() {
		n.idle = math.MaxInt64
		n.capacity = offering(n.CPUMilli, n.MemoryMi, n.Others)
		single := InstancesAsGPUs(n.Labels)
		for c := range n.GPUs {
			device := &n.GPUs[c]
			w.supplyGPU(n, device, single)
			if device.Model != model {
				model = device.Model
				table, _ = w.models.table(model.Name)
				w.models.noteModel(model)
			}
			w.readGPU(n, device, table, &all[c])
		}
		all = all[len(n.GPUs):]
		n.booting = w.young(n) && n.Ready && !single && w.models.halfOffered(n)
		if !n.booting {
			w.models.limitToOffer(n, single)
		}
	}
}

// readGPU reads one GPU, counts for its node what is allocated of it, and makes the verdict
// on it.
func (w *world) readGPU(n *nodeState, c *GPU, t *mig.Table, v *Verdict) {
	allocated, unused, compute, memory := 0, !c.UnusedSince.IsZero(), 0, 0
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.AllocatedTo != "" {
			allocated++
			unused = unused || !in.UnusedSince.IsZero()
		} else if c.Health != gpu.Sick {
			n.unallocated = added(n.unallocated, w.models.namedAs(n.model, c, in.Profile), 1)
		}
		compute += in.Profile.Compute
		memory += in.Profile.Memory
	}
	v.Kind, v.Subject, v.Reason = KindGPU, w.names.join(n.name, "/", strconv.Itoa(c.Index)), GPUAllocated
	switch {
	case !c.AllocationKnown:
		v.Reason, n.notFree = AllocationUnknown, cmp.Or(n.notFree, AllocationUnknown)
	case allocated > 0 || len(c.AllocatedTo) > 0:
		if n.notFree = cmp.Or(n.notFree, NodeBusy); c.MIG {
			v.Detail = w.names.join(strconv.Itoa(allocated), " of ", strconv.Itoa(len(c.Instances)), " instances")
		}
	default:
		v.Reason = GPUFree
		if since := c.releasedAt(); since.IsZero() {
			n.unstated = true
		} else {
			idle := max(w.now.Sub(since), 0)
			v.Detail, n.idle = "for "+short(idle), min(n.idle, idle)
		}
	}
	n.unknown, n.unknownMIG = n.unknown || !c.AllocationKnown, n.unknownMIG || c.MIG && !c.AllocationKnown
	if !c.MIG && len(c.AllocatedTo) == 0 && c.Health != gpu.Sick {
		n.plainUnallocated++
	}
	if n.pool != nil {
		n.hasUnused = n.hasUnused || unused
		n.addable = n.addable || c.MIG && !c.ByClaim && t != nil && compute < t.ComputeSlices() && memory < t.MemorySlices()
	}
	switch o := n.Operation; {
	case c.Health == gpu.Sick:
		n.sick, v.Reason, v.Detail = true, GPUSick, ""
	case o != nil && o.GPU == c.Index && o.Phase == PhaseSucceeded:
		v.Reason, v.Detail = RepartitionDone, ""
	case o != nil && o.GPU == c.Index:
		v.Reason, v.Detail = WaitRepartition, ""
	}
}

// free reports a GPU that is known to be allocated to no pod.
func (c *GPU) free() bool { return c.AllocationKnown && !c.allocated() }

// releasedAt is since when all of a GPU is free; zero for unknown.
func (c *GPU) releasedAt() time.Time {
	since := c.IdleSince
	for i := range c.Instances {
		if c.IdleSince.IsZero() && c.Instances[i].IdleSince.IsZero() {
			return time.Time{}
		}
		since = later(since, c.Instances[i].IdleSince)
	}
	return since
}

// allocationDelay is the usual time from a node's creation, or from a pod's
// binding, until allocations are known.
const allocationDelay = 30 * time.Second

// knownAt is when the allocation of a node's GPU is likely to be known. It is
// false after NodeOverdue where other nodes of the pool show that it can be
// known.
func (cond *conditions) knownAt(n *nodeState) (time.Time, bool) {
	since := cond.since(cond.state.UnknownSince, n.name)
	if cond.now.Sub(since) > cond.policy.NodeOverdue && !n.pool.unobserved {
		return time.Time{}, false
	}
	// The longer it has lasted, the longer it is likely to last.
	return cond.now.Add(max(allocationDelay, cond.now.Sub(since))), true
}

// recordUnknown records since when a node has had GPUs of unknown allocation. A pool is
// unobserved where all its nodes have such GPUs, and one has had them for longer than
// NodeOverdue. Then a new node's allocations would be unknown too, and it could not be
// repartitioned either.
func (cond *conditions) recordUnknown(n *nodeState, since Times) {
	p := n.pool
	switch {
	case len(n.GPUs) == 0:
	case !n.unknown:
		p.observed, p.unobserved = true, false
	default:
		at := cond.since(since, n.name)
		p.unobserved = !p.observed && (p.unobserved || cond.now.Sub(at) > cond.policy.NodeOverdue)
		cond.state.UnknownSince[n.name] = at
	}
}

// discountAllocated takes off devices allocated to pods that the snapshot does not
// have as bound: a pod that is deleted from the API can keep its GPU for a while.
// It takes nothing off where allocations are unknown.
func (n *nodeState) discountAllocated() {
	for i := range n.free {
		if f := &n.free[i]; !n.operating() && !n.unknownMIG {
			f.N = min(f.N, mig.CountOf(n.unallocated, f.Profile))
		}
	}
	if !n.undivided {
		n.whole = min(n.whole, n.plainUnallocated)
	}
}

// limitSick limits the free capacity of a node with a sick GPU to what the scheduler counts: what
// the device plugin offers, with or without the sick GPU, minus the requests of all its pods, those
// on the sick GPU included.
func (ms *models) limitSick(n *nodeState) {
	if !n.sick || n.Allocatable == nil || n.booting || n.operating() {
		return
	}
	left := capacity{vendor: n.vendor, model: n.model, whole: clampCount(n.Allocatable.GPUs), free: ms.instances(nil, n.model, n.Allocatable.MIG, 1)}
	for _, p := range n.pods {
		ms.takeRunning(&Pod{Demand: demand.Demand{GPUs: p.Demand.GPUs, Vendor: p.Demand.Vendor, MIG: p.Demand.MIG}}, &left)
	}
	n.whole = min(n.whole, left.whole)
	for i := range n.free {
		n.free[i].N = min(n.free[i].N, mig.CountOf(left.free, n.free[i].Profile))
	}
}

// limitToOffer limits a node's free capacity to its allocatable resources less
// the requests of its bound pods. That needs neither attribution nor layouts.
func (ms *models) limitToOffer(n *nodeState, single bool) {
	offer := n.Allocatable
	if offer == nil || n.sick || n.operating() {
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
	if _, ok := ms.table(model); ok {
		n.model, n.free = model, ms.instances(nil, model, offer.MIG, 1)
	}
}

// halfOffered reports a node whose device plugin has just started: it offers
// less than its GPUs are known to be partitioned into.
func (ms *models) halfOffered(n *nodeState) bool {
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
	if _, ok := ms.table(n.model); !ok || !unknown {
		return false
	}
	offered := ms.instances(nil, n.model, n.Allocatable.MIG, 1)
	return slices.ContainsFunc(repartition, func(c mig.Count) bool { return mig.CountOf(offered, c.Profile) < c.N })
}
