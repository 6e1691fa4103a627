package observe

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// markUnattributed makes allocations unknown on the GPUs that could serve a bound pod for which the
// exporter reports fewer devices than the pod requests.
func markUnattributed(in nodeInput, gpus []plan.GPU) {
	if in.reading == nil {
		return
	}
	read := in.reading.taken.Add(-in.reading.age)
	key := make([]byte, 0, 128) // of the pod; reused, since every pod is looked up in every reconcile
	for _, p := range in.bound {
		key = append(append(append(key[:0], p.Namespace...), '/'), p.Name...)
		allocated := in.reading.allocated[string(key)]
		// The kubelet lists pods by name: an allocation that was read before this one was created is an
		// earlier pod's. Creation times have whole seconds.
		if p.Created.Add(time.Second).After(read) {
			allocated = 0
		}
		unread := p.Unreadable != "" && allocated == 0 // it may have any device
		if !unread && (p.Demand.Zero() || allocated >= devices(p.Demand)) {
			continue
		}
		for i := range gpus {
			if unread || couldServe(&gpus[i], p.Demand, in.tables) {
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

// trackIdle sets since when a GPU or its instances have been free.
func (o *Observer) trackIdle(in nodeInput, c *plan.GPU) {
	if !c.AllocationKnown {
		return
	}
	device := idleKey{node: in.node.Name, device: c.UUID, index: c.Index}
	allocated := len(c.AllocatedTo) > 0
	for i := range c.Instances {
		inst := &c.Instances[i]
		key := device
		key.isInstance, key.instance, key.place = true, inst.UUID, inst.Placement
		if inst.AllocatedTo != "" {
			allocated = true
			o.idle.allocated(key)
			continue
		}
		inst.IdleSince = o.idle.free(key, in.now)
	}
	if allocated {
		o.idle.allocated(device)
		return
	}
	c.IdleSince = o.idle.free(device, in.now)
}
