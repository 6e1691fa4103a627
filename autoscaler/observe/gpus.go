package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// maxGPUs bounds the GPU count that a label may give.
const maxGPUs = 64

// gpus returns the node's GPUs. The layout is the exporter's where it agrees with the device
// plugin's offer, else the node agent's, else that of mig-manager's config.
func (o *Observer) gpus(in nodeInput, report map[int]reportedGPU) []plan.GPU {
	gpus := in.devices(report)
	if r := in.reading; r != nil {
		for i := range gpus {
			fromReading(&gpus[i], r.gpus[gpus[i].Index], in)
			in.divideGPU(&gpus[i])
		}
	}
	switch {
	case in.facts.byClaim != nil:
		fromClaims(in, gpus)
	case in.reading == nil || timeSliced(in.node) || !agrees(in, gpus):
		if !fromPods(in, gpus) && !fromReport(in, gpus, report) {
			fromConfig(in, gpus)
		}
	default:
		for i := range gpus {
			if in.readingOf(gpus[i].Index) != nil {
				place(&gpus[i], report[gpus[i].Index])
			}
		}
	}
	if in.facts.byClaim == nil {
		markUnattributed(in, gpus)
	}
	for i := range gpus {
		o.trackIdle(in, &gpus[i])
	}
	return gpus
}

// devices returns the GPUs that labels, the exporter and the agent know, without their allocations.
func (in nodeInput) devices(report map[int]reportedGPU) []plan.GPU {
	memory, _ := strconv.Atoi(in.node.Labels[partition.MemoryLabel])
	model, _ := in.model(in.facts.Labels[partition.ProductLabel], memory)
	n, most := in.facts.count, in.facts.most
	if in.facts.asGPUs {
		n = in.carriers(cmp.Or(model.Name, in.modelOf(0).Name))
	}
	if d := in.facts.divided; d != nil {
		n = d.GPUs
	}
	if offered := in.facts.Allocatable; n == 0 && offered != nil {
		n = min(max(offered.GPUs, in.facts.gpus), maxGPUs)
	}
	if n == 0 && in.facts.devices {
		n = max(len(in.usual()), 1) // its dialect offers parts of GPUs and does not state of how many GPUs
	}
	for index := range report {
		n = min(max(n, index+1), maxGPUs)
	}
	if in.reading != nil {
		most = max(n, most)
		if in.facts.divided != nil {
			most = n
		}
		for index, r := range in.reading.gpus {
			switch {
			case index >= most:
				in.ignored.GPUs++
				continue
			case r.disputed():
				in.ignored.Disputed++
			}
			n = max(n, index+1)
		}
	}
	gpus := make([]plan.GPU, n)
	for i := range gpus {
		gpus[i] = plan.GPU{Device: gpu.Device{Index: i, Model: model}, Shared: in.facts.shared()}
		if model.Name == "" {
			gpus[i].Model = in.modelOf(i)
		}
		in.divideGPU(&gpus[i])
		// What the node offers decides the vendor: its product may be the pool's, and of another vendor or of none.
		if offered := in.facts.Allocatable; offered != nil && offered.Vendor != "" && gpus[i].Model.Vendor != offered.Vendor {
			gpus[i].Model = gpu.Model{Vendor: offered.Vendor}
		}
	}
	return gpus
}

// modelOf returns the product of a GPU whose node has no label of GFD: from the operation under way, else the agent's
// report, else the pool. The exporter is no source: its series end and begin again with an operation.
func (in nodeInput) modelOf(index int) gpu.Model {
	if r, ok, err := contract.RecordOf(in.node); ok && err == nil && r.GPU == index {
		if model, ok := in.model(r.Model, 0); ok {
			return model
		}
	}
	for _, c := range in.facts.report.GPUs {
		if model, ok := in.model(c.Model, 0); ok && c.Index == index {
			return model
		}
	}
	if usual := in.usual(); len(usual) > 0 {
		return usual[min(index, len(usual)-1)].Model
	}
	return gpu.Model{}
}

// usual are the GPUs of a new node of its pool, none without a pool.
func (in nodeInput) usual() []plan.GPU {
	if in.pool == nil {
		return nil
	}
	return in.pool.usual
}

// gpuCounts returns how many GPUs a node has, and how many it can have at most. The node's label states both; else the
// whole GPUs that it advertises do. These are no bound where MIG may be on, since a GPU without MIG devices is not
// advertised, or where a dialect divides GPUs: most is then maxGPUs. A time-sliced GPU under the plain name counts once
// for each replica, as the scheduler and a pool's template count it.
func gpuCounts(n *corev1.Node) (count, most int) {
	strategy, sliced := n.Labels[partition.StrategyLabel], timeSliced(n)
	labelled, err := strconv.Atoi(n.Labels[partition.CountLabel])
	if labelled = min(max(labelled, 0), maxGPUs); err != nil || profileAsGPU(n) != "" {
		labelled = 0
	}
	if labelled > 0 && !sliced {
		return labelled, labelled
	}
	var offered, had int64
	whole := true
	for name, q := range n.Status.Allocatable {
		if d, err := demandOf(string(name)); err == nil && d.GPUs == 1 {
			capacity := n.Status.Capacity[name] // includes devices that the plugin withdrew
			offered, had = offered+min(q.Value(), maxShares), had+min(max(q.Value(), capacity.Value()), maxGPUs)
		} else if err == nil && !d.Zero() {
			whole = false
		}
	}
	count = int(min(offered, maxGPUs))
	if sliced {
		count = int(min(offered, maxShares))
	}
	switch {
	case labelled > 0:
		return count, labelled
	case !whole || had == 0 || strategy != "" && strategy != "none" || n.Labels[contract.ConfigLabel] != "" || beingRepartitioned(n):
		return count, maxGPUs
	}
	return count, int(min(had, maxGPUs))
}

// timeSliced reports whether the device plugin offers several replicas of each GPU under the name of
// whole GPUs.
func timeSliced(n *corev1.Node) bool {
	return replicasOf(n) > 1 && partition.Advertised(n)[partition.GPUResource] > 0
}

// demandOf returns the demand of one unit of an extended resource; zero for any other resource.
func demandOf(name string) (demand.Demand, error) {
	if !strings.Contains(name, "/") {
		return demand.Demand{}, nil
	}
	return demand.FromResources(map[string]int64{name: 1})
}

// fromReading fills in the exporter's samples of a GPU.
func fromReading(c *plan.GPU, r *deviceReading, in nodeInput) {
	if !r.usable() {
		return
	}
	c.UUID, c.MIG = r.is.value.uuid, r.is.value.mig
	c.Busy, c.UnusedSince = r.use(in.reading.taken, in.now, in.maxAge)
	if healthy, known := r.healthy.get(); known && healthy {
		c.Health = gpu.Healthy
	} else if known && in.confirmsSick(r) {
		c.Health = gpu.Sick
	}
	if model, ok := in.model(r.is.value.model, 0); ok {
		c.Model = model
	}
	c.AllocatedTo, c.AllocationKnown = in.holders(r), true
	if !c.MIG {
		return
	}
	table, ok := in.Tables.ForModel(c.Model.Name)
	if !ok {
		c.AllocationKnown = false
		return
	}
	for _, id := range slices.Sorted(maps.Keys(r.instances)) {
		i := r.instances[id]
		profile, err := table.Lookup(i.is.value.profile)
		if !i.is.known || err != nil {
			c.AllocationKnown = false // a pod may be allocated this unknown instance
			continue
		}
		start := i.is.value.start
		inst := plan.Instance{Placement: mig.Placement{Profile: profile, Start: max(start, 0)}, Placed: start >= 0, UUID: i.is.value.uuid}
		inst.Busy, inst.UnusedSince = i.use(in.reading.taken, in.now, in.maxAge)
		if holders := in.holders(i); len(holders) > 0 {
			inst.AllocatedTo = holders[0]
		}
		c.Instances = append(c.Instances, inst)
	}
	slices.SortFunc(c.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
	settle(c, table)
}

// fromClaims sets the allocations of GPUs on which a DRA driver creates MIG devices when they are claimed. Claims state
// all of these allocations. A GPU has the UUID that the exporter reports. GPUs without one get the driver's other UUIDs
// in order.
func fromClaims(in nodeInput, gpus []plan.GPU) {
	d := in.facts.byClaim
	unnamed := slices.DeleteFunc(slices.Sorted(maps.Keys(d.gpus)), func(uuid string) bool {
		return slices.ContainsFunc(gpus, func(c plan.GPU) bool { return c.UUID == uuid })
	})
	for i := range gpus {
		c := &gpus[i]
		if c.UUID == "" && len(unnamed) > 0 {
			c.UUID, unnamed = unnamed[0], unnamed[1:]
		}
		table, ok := in.Tables.ForModel(c.Model.Name)
		measured := c.Instances
		c.ByClaim, c.AllocationKnown, c.AllocatedTo, c.Instances = ok && d.divides[c.UUID], true, d.users[c.UUID], nil
		if c.MIG = len(d.inUse[c.UUID]) > 0; c.MIG {
			c.AllocatedTo, c.UnusedSince = nil, time.Time{}
		}
		for _, one := range d.inUse[c.UUID] {
			name, err := mig.ParseName(one.Profile)
			if !ok || err != nil {
				c.AllocationKnown = false
				continue
			}
			profile, _ := table.Exact(name.String())
			at := plan.Instance{Placement: mig.Placement{Profile: profile, Start: one.Start}}
			if same := slices.IndexFunc(measured, func(i plan.Instance) bool { return i.Placement == at.Placement }); same >= 0 {
				at = measured[same]
			}
			at.Placed, at.AllocatedTo = true, one.pod
			c.Instances = append(c.Instances, at)
		}
		slices.SortFunc(c.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
		if ok && c.MIG {
			settle(c, table)
			c.ByClaim = c.ByClaim && c.AllocationKnown
		}
	}
}

// holders returns the pods that a device is allocated to, sorted.
func (in nodeInput) holders(r *deviceReading) []string {
	out := slices.DeleteFunc(slices.Clone(r.allocatedTo), func(pod string) bool { return in.watching[pod] })
	slices.Sort(out)
	return out
}

// settle corrects inconsistent samples of a MIG GPU. A pod to which they allocate the whole GPU has an unknown instance
// of it. A layout that no GPU can have was read halfway through a change.
func settle(c *plan.GPU, table *mig.Table) {
	if len(c.AllocatedTo) > 0 {
		c.AllocatedTo, c.AllocationKnown, c.UnusedSince = nil, false, time.Time{}
	}
	var placed mig.Layout
	for _, i := range c.Instances {
		if i.Placed {
			placed = append(placed, i.Placement)
		}
	}
	if table.Legal(placed) != nil {
		c.Instances, c.AllocationKnown = nil, false
	}
}

// agrees reports whether the exporter's instances are those the device plugin offers: right after a
// repartition one of them is stale. While a GPU is being repartitioned the plugin offers nothing,
// and the exporter is trusted.
func agrees(in nodeInput, gpus []plan.GPU) bool {
	if beingRepartitioned(in.node) {
		return true
	}
	if len(in.facts.instances) == 0 && !slices.ContainsFunc(gpus, func(c plan.GPU) bool { return c.MIG }) {
		return true // most nodes: there is nothing to compare
	}
	layout, err := partition.Names{}.LayoutOf(in.Tables, gpus)
	if err != nil {
		return false
	}
	return partition.SameOffer(instancesOnly(layout.Resources()), in.facts.instances)
}

const instancePrefix = "nvidia.com/mig-"

// offersInstances reports whether the node has a resource of MIG devices. Its amount may be 0: a MIG device that the
// plugin no longer offers may still be allocated.
func offersInstances(n *corev1.Node) bool {
	for name := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), instancePrefix) {
			return true
		}
	}
	return false
}

// instancesOnly leaves out whole GPUs, whose count depends on time-slicing replicas.
func instancesOnly(resources map[string]int64) map[string]int64 {
	out := maps.Clone(resources)
	maps.DeleteFunc(out, func(name string, _ int64) bool { return !strings.HasPrefix(name, instancePrefix) })
	return out
}

// fromConfig gives GPUs the layout of the node's selected config, or the layout before an operation
// under way. Allocations are unknown.
func fromConfig(in nodeInput, gpus []plan.GPU) {
	name := in.node.Labels[contract.ConfigLabel]
	if r, ok, err := contract.RecordOf(in.node); ok && err == nil {
		name = r.Previous
	}
	layout := in.config.Layout(name, len(gpus))
	whole := 0 // GPUs that a DRA driver offers beside MIG devices
	if in.facts.gpus > 0 {
		whole = min(in.facts.Allocatable.GPUs, len(gpus))
	}
	var guess []mig.Layout
	if layout == nil && (in.facts.asGPUs || partition.Advertised(in.node)[partition.GPUResource] == 0) {
		guess = spread(in.facts.instances, gpus[whole:], in.Tables)
	}
	for i := range gpus {
		c := &gpus[i]
		forgetAllocations(c)
		c.MIG = i >= whole && (len(in.facts.instances) > 0 || in.facts.gpus > 0)
		switch {
		case layout != nil: // entries of others may list instances with MIG off
			if c.MIG = layout[i].MIG; !c.MIG {
				continue
			}
			if one := spread(layout[i:i+1].Resources(), gpus[i:i+1], in.Tables); one != nil {
				c.Instances = unplaced(one[0])
			}
		case guess != nil && c.MIG:
			c.Instances = unplaced(guess[i-whole])
		}
	}
}

// forgetAllocations drops the allocations of a stale reading.
func forgetAllocations(c *plan.GPU) {
	c.AllocationKnown, c.AllocatedTo, c.Instances, c.UnusedSince = false, nil, nil, time.Time{}
}

// unplaced returns instances at possible placements. Only their number is known.
func unplaced(layout mig.Layout) []plan.Instance {
	out := make([]plan.Instance, len(layout))
	for i, p := range layout {
		out[i] = plan.Instance{Placement: p}
	}
	return out
}
