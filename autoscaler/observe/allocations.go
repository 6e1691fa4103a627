package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// markUnattributed finds the bound pods for which the exporter reports fewer devices than they request. It makes
// allocations unknown on the GPUs that could serve such a pod.
func markUnattributed(in nodeInput, gpus []plan.GPU) {
	if in.reading == nil {
		return
	}
	read := in.reading.taken.Add(-in.reading.age.age)
	key := make([]byte, 0, 128) // of the pod; reused, since every pod is looked up in every reconcile
	for _, p := range in.bound {
		key = append(append(append(key[:0], p.Namespace...), '/'), p.Name...)
		allocated := in.reading.allocated[string(key)]
		// The kubelet lists pods by name: an allocation that was read before this pod was created belongs to an
		// earlier pod of the same name. Creation times have whole seconds.
		if p.Created.Add(time.Second).After(read) {
			allocated = 0
		}
		unread := p.Unreadable != "" && allocated == 0 // it may have any device
		if !unread && (p.Demand.Zero() || allocated >= devices(p.Demand)) {
			continue
		}
		for i := range gpus {
			if unread || couldServe(&gpus[i], p.Demand, in.Tables) {
				gpus[i].AllocationKnown = false
			}
		}
	}
}

// devices returns how many GPUs and MIG devices serve a demand.
func devices(d demand.Demand) int {
	n := d.GPUs
	for _, i := range d.MIG {
		n += i.Count
	}
	if d.Fraction != nil {
		n = max(n, 1)
	}
	return n
}

// couldServe reports whether a GPU has something free that could serve the demand. Under the single
// strategy, whole GPUs may be MIG devices.
func couldServe(c *plan.GPU, d demand.Demand, tables mig.Tables) bool {
	if d.GPUs > 0 || d.Fraction != nil {
		return !c.MIG || slices.ContainsFunc(c.Instances, func(i plan.Instance) bool { return i.AllocatedTo == "" })
	}
	if !c.MIG {
		return false
	}
	table, ok := tables.ForModel(c.Model.Name)
	if !ok {
		return true
	}
	for _, want := range d.MIG {
		profile, ok := table.Exact(want.Name)
		if !ok {
			continue
		}
		if slices.ContainsFunc(c.Instances, func(i plan.Instance) bool { return i.AllocatedTo == "" && i.Profile == profile }) {
			return true
		}
	}
	return false
}

// idleKey identifies a GPU, or a MIG device at its placement on it. UUIDs are empty where they are unknown.
type idleKey struct {
	node, gpu string
	index     int
	isMIG     bool
	uuid      string
	place     mig.Placement
}

// idleEntry is since when a device has been free, and when that was last seen.
type idleEntry struct{ since, last time.Time }

// trackIdle sets since when a GPU and its instances have been free.
func (o *Observer) trackIdle(in nodeInput, c *plan.GPU) {
	if !c.AllocationKnown {
		return
	}
	key := idleKey{node: in.node.Name, gpu: c.UUID, index: c.Index}
	allocated := len(c.AllocatedTo) > 0
	for i := range c.Instances {
		inst, part := &c.Instances[i], key
		part.isMIG, part.uuid, part.place = true, inst.UUID, inst.Placement
		inst.IdleSince = o.idleSince(part, inst.AllocatedTo != "", in.now)
		allocated = allocated || inst.AllocatedTo != ""
	}
	c.IdleSince = o.idleSince(key, allocated, in.now)
}

// idleSince returns since when a device has been free; zero for an allocated device. That is now for a device that was
// not free before, or that was unknown for longer than MaxAge: it may have been allocated meanwhile.
func (o *Observer) idleSince(key idleKey, allocated bool, now time.Time) time.Time {
	if allocated {
		delete(o.idle, key)
		return time.Time{}
	}
	e, ok := o.idle[key]
	if !ok || now.Sub(e.last) > o.o.MaxAge || now.Before(e.since) {
		e.since = now
	}
	o.idle[key] = idleEntry{e.since, now}
	return e.since
}

// fromPods gives GPUs the allocations that the node's bound pods prove, where no exporter reports them; false where the
// pods do not prove them.
//
//   - A device plugin for whole GPUs gives each GPU to one pod, whatever the GPU's maker. Which pod has which GPU is
//     not known: the GPUs are taken as equal. GPUs that are given in shares are treated alike.
//   - Where a dialect divides GPUs, the pods' annotations name their GPUs.
//   - The replicas of time-sliced GPUs are known by their pods alone: an exporter reports the GPUs.
//
// MIG devices need an exporter. So do whole GPUs in use that could be repartitioned: a repartition depends on which of
// them are free.
func fromPods(in nodeInput, gpus []plan.GPU) bool {
	if in.facts.asGPUs {
		return instancesFromPods(in, gpus)
	}
	divided, shares := in.facts.divided != nil, in.reading == nil && in.facts.shares > 0
	whole := !divided && !shares
	if whole && (in.reading != nil && !timeSliced(in.node) || !givesWholeGPUs(in) || in.facts.Allocatable.GPUs != len(gpus)) || len(gpus) == 0 {
		return false
	}
	for i := range gpus {
		forgetAllocations(&gpus[i])
		gpus[i].MIG, gpus[i].AllocationKnown = gpus[i].MIG && shares, true
	}
	next := 0
	for _, p := range in.boundByName() {
		if p.Unreadable != "" || len(p.Demand.MIG) > 0 || shares && p.Demand.GPUs > 0 || whole && p.Demand.Fraction != nil {
			return false
		}
		on := slices.Clone(p.PartsOn)
		for range min(p.Demand.GPUs, len(gpus)+1) {
			on = append(on, next)
			next++
		}
		if len(on) == 0 && p.Demand.Fraction != nil {
			on = append(on, next)
			next++
		}
		for _, i := range on {
			if c := &gpus[i%len(gpus)]; !slices.Contains(c.AllocatedTo, p.Key()) {
				c.AllocatedTo = append(c.AllocatedTo, p.Key())
			}
		}
	}
	_, isMIG := in.Tables.ForModel(gpus[0].Model.Name)
	return !whole || next <= len(gpus) && !(isMIG && next > 0 && !timeSliced(in.node))
}

func (in nodeInput) boundByName() []*plan.Pod {
	return slices.SortedFunc(slices.Values(in.bound), func(a, b *plan.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// givesWholeGPUs reports whether the node's device plugin gives whole GPUs and nothing else.
func givesWholeGPUs(in nodeInput) bool {
	n, offered := in.node, in.facts.Allocatable
	if offered == nil || offered.GPUs == 0 || len(offered.MIG) > 0 || offered.Fraction != nil || beingRepartitioned(n) {
		return false
	}
	if strings.HasSuffix(n.Labels[partition.ProductLabel], partition.SharedSuffix) && !timeSliced(n) {
		return false
	}
	for _, c := range in.facts.report.GPUs {
		if c.MIG {
			return false
		}
	}
	return !offersInstances(n)
}
