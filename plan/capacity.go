package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// capacity is the free capacity of a node, counted as the scheduler counts: by
// resource, not by placement.
type capacity struct {
	cpu, memory int64        // thousandths of a core, MiB
	pods        int64        // further pods that may run
	vendor      string       // of the whole GPUs
	whole       int          // whole GPUs, or equal instances under the single strategy
	undivided   bool         // whole counts such instances: no scheduler gives parts of them
	gpuMiB      int          // memory of one whole GPU, 0 for not known
	gpuPlaces   int          // pods that may share one, 0 for no limit
	parts       []part       // GPUs that are shared by fractions
	model       string       // of the MIG GPUs, empty for none
	free        []mig.Count  // instances by profile, those of GPUs of other models too, see profile
	byClaim     bool         // whole GPUs are divided into instances as pods claim these
	divided     []mig.Layout // GPUs that are divided so: their claimed instances
	others      []Resource   // the node's own list until something is taken
	ports       []HostPort   // host ports that are taken
}

// models are the GPU models of the snapshot with their MIG tables. They translate what capacity offers
// and what pods request into a model's profiles. What has been computed once is kept: it depends on no
// trial.
type models struct {
	tables     mig.Tables
	tableOf    map[string]*mig.Table // nil: the model has none
	seen       []gpu.Model           // of all GPUs
	requestIDs map[string]int        // numbers of the requests on each model
	answers    map[string]answer     // of pack.Target, by question
}

// unstated stands for CPU or memory that the snapshot does not state: no limit.
const unstated = math.MaxInt64 / 4

func stated(v int64) int64 {
	if v <= 0 {
		return unstated
	}
	return v
}

// podsResource is the number of pods that a node may run, among its other resources;
// ephemeralStorage is its disk. Where a node or a template states none, there is no limit.
const (
	podsResource     = "pods"
	ephemeralStorage = "ephemeral-storage"
)

// offering is a node's or a template's capacity without its GPUs.
func offering(cpu, memory int64, others []Resource) capacity {
	c := capacity{cpu: stated(cpu), memory: stated(memory), pods: unstated, others: others}
	for _, o := range others {
		if o.Name == podsResource {
			c.pods = o.Amount
		}
	}
	return c
}

// GKEPartition is GKE's label of nodes that offer MIG instances of one profile as GPUs.
const GKEPartition = "cloud.google.com/gke-gpu-partition-size"

// InstancesAsGPUs reports whether a node with these labels offers its MIG instances, if it has any, as GPUs: by the
// strategy "single" of NVIDIA's device plugin, the GPU Operator's default, or by GKE's own plugin.
func InstancesAsGPUs(labels map[string]string) bool {
	return labels["nvidia.com/mig.strategy"] == "single" || labels[GKEPartition] != ""
}

// supplyTo adds a GPU's whole capacity, allocated or not.
func (ms *models) supplyTo(r *capacity, device *GPU, single bool) {
	switch {
	case device.Health == gpu.Sick:
	case device.Shared:
		r.addWhole(device, 0)
		all := r.unused(device.Index + 1)
		all.shared = true
		r.parts = append(r.parts, all)
	case !device.MIG:
		if r.addWhole(device, 1); device.ByClaim {
			r.model, r.byClaim = cmp.Or(r.model, device.Model.Name), true
		}
	case single:
		r.addWhole(device, len(device.Instances))
		r.undivided = true
	default:
		r.model = cmp.Or(r.model, device.Model.Name)
		for i := range device.Instances {
			r.free = added(r.free, ms.namedAs(r.model, device, device.Instances[i].Profile), 1)
		}
		if device.ByClaim {
			r.byClaim, r.divided = true, append(r.divided, layoutOf(device))
		}
	}
}

// supplyNew is supplyTo for a GPU of a new node, without what is allocated to DaemonSet pods.
func (ms *models) supplyNew(r *capacity, device *GPU, single bool) {
	if len(device.AllocatedTo) > 0 {
		r.addWhole(device, 0)
		return
	}
	free := *device
	free.Instances = slices.DeleteFunc(slices.Clone(device.Instances), func(in Instance) bool { return in.AllocatedTo != "" })
	ms.supplyTo(r, &free, single)
}

// namedAs translates a GPU's profile to the model of its node's first GPU, by name: the scheduler counts a node's
// instances by name, whatever GPU they are on.
func (ms *models) namedAs(model string, device *GPU, p mig.Profile) mig.Profile {
	if device.Model.Name != model {
		if t, ok := ms.table(device.Model.Name); ok {
			p, _ = ms.profile(model, t.Name(p))
		}
	}
	return p
}

// supplyRepartition adds the target layout of a GPU that is being
// repartitioned.
func (ms *models) supplyRepartition(r *capacity, device *GPU, target mig.Layout, single bool) {
	repartition := *device
	repartition.Instances = make([]Instance, len(target))
	for i, p := range target {
		repartition.Instances[i].Placement = p
	}
	ms.supplyTo(r, &repartition, single)
}

// relayout changes the free instances by a GPU's repartition. Instances that stay in place stay allocated.
func (r *capacity) relayout(from, to mig.Layout) {
	for _, in := range from {
		r.free = added(r.free, in.Profile, -1)
	}
	for _, in := range to {
		r.free = added(r.free, in.Profile, 1)
	}
}

func (r *capacity) addWhole(device *GPU, n int) {
	if r.vendor == "" {
		r.vendor, r.gpuMiB, r.gpuPlaces = device.Model.Vendor, device.Model.MemoryMiB, device.Places
	}
	if r.vendor == device.Model.Vendor {
		r.whole += n
	}
}

// Results of lacks: too few GPUs, too little of a GPU, and as many pods as the node may run.
const (
	wholeGPUs = "GPUs"
	partOfGPU = "part of a GPU"
	podPlaces = "places for pods"
)

// lacks names the first resource that keeps a pod of the kind out: "cpu",
// "memory", podPlaces, "GPUs", partOfGPU, another resource by its name, a host port, and last
// "slices", which a repartition can provide; empty where the pod fits.
func (ms *models) lacks(k *kind, r *capacity) string {
	p := k.pod
	switch {
	case p.CPUMilli > max(r.cpu, 0): // as in the scheduler, a pod that requests none fits an overcommitted node
		return "cpu"
	case p.MemoryMi > max(r.memory, 0):
		return "memory"
	case r.pods < 1:
		return podPlaces
	case p.Demand.GPUs > 0 && (r.whole < p.Demand.GPUs || !sameVendor(p.Demand.Vendor, r.vendor)):
		return wholeGPUs
	case p.Demand.Fraction != nil && !r.hasParts(p):
		return partOfGPU
	}
	if other := r.lacksOther(p.Others); other != "" {
		return other
	}
	if port := r.takenPort(p); port != "" {
		return port
	}
	if len(p.Demand.MIG) > 0 && !ms.hasSlices(k, r) {
		return "slices"
	}
	return ""
}

// lacksOther names the first of the other resources that is short, empty for
// none.
func (r *capacity) lacksOther(want []Resource) string {
	for _, o := range want {
		i := slices.IndexFunc(r.others, func(have Resource) bool { return have.Name == o.Name })
		if o.Amount > 0 && (i < 0 && o.Name != ephemeralStorage || i >= 0 && r.others[i].Amount < o.Amount) {
			return o.Name
		}
	}
	return ""
}

// takeOthers subtracts a pod's other resources, times times: 1 allocates, -1
// releases.
func (r *capacity) takeOthers(want []Resource, times int64) {
	if len(want) == 0 {
		return
	}
	r.others = slices.Clone(r.others)
	for _, o := range want {
		for i := range r.others {
			if r.others[i].Name == o.Name {
				r.others[i].Amount -= times * max(min(o.Amount, unstated), 0)
			}
		}
	}
}

func sameVendor(want, have string) bool { return want == "" || have == "" || want == have }

func (ms *models) hasSlices(k *kind, r *capacity) bool {
	need, _ := ms.requestOf(k, r.model)
	for _, c := range need {
		if mig.CountOf(r.free, c.Profile) < c.N {
			return ms.claims(k, r)
		}
	}
	return true
}

// claims reports whether GPUs that are divided as instances are claimed have space for what a pod of the kind requests.
func (ms *models) claims(k *kind, r *capacity) bool {
	if !r.byClaim {
		return false
	}
	left := r.clone()
	left.whole -= clampCount(k.pod.Demand.GPUs)
	need, _ := ms.requestOf(k, r.model)
	for _, c := range need {
		left.free = added(left.free, c.Profile, -c.N)
	}
	return ms.divide(&left)
}

// divide makes the instances whose count is negative on GPUs that are divided by claims, the largest first: each at the
// first free place of a divided GPU, else on a whole GPU. It is false where there is no place.
func (ms *models) divide(r *capacity) bool {
	t, ok := ms.table(r.model)
	slices.SortFunc(r.free, func(a, b mig.Count) int { return b.Profile.Compare(a.Profile) })
	for i := range r.free {
		for short := &r.free[i]; short.N < 0; short.N++ {
			if !ok || !r.divideFor(t, short.Profile) {
				return false
			}
		}
	}
	return true
}

func (r *capacity) divideFor(t *mig.Table, p mig.Profile) bool {
	for i := range len(r.divided) + min(max(r.whole, 0), 1) {
		var l mig.Layout // of a whole GPU
		if i < len(r.divided) {
			l = r.divided[i]
		}
		free := t.Free(l)
		at := slices.IndexFunc(free, func(at mig.Placement) bool { return at.Profile == p })
		switch {
		case at < 0:
			continue
		case i == len(r.divided):
			r.whole--
			r.divided = append(r.divided, nil)
		}
		r.divided[i] = mig.NewLayout(append(slices.Clip(l), free[at])...)
		return true
	}
	return false
}

// take subtracts the requests of a pod of the kind. A result below zero is
// possible for running pods only.
func (ms *models) take(k *kind, r *capacity) {
	need, _ := ms.requestOf(k, r.model)
	for _, c := range need {
		r.free = added(r.free, c.Profile, -c.N)
	}
	if r.byClaim {
		ms.divide(r)
	}
	r.takePlain(k.pod, 1)
}

// takeRunning subtracts the requests of a running pod. PutBack adds them again; parts
// of GPUs stay allocated where it is unknown which GPU they are on.
func (ms *models) takeRunning(p *Pod, r *capacity) { ms.account(p, r, 1) }

func (ms *models) putBack(p *Pod, r *capacity) { ms.account(p, r, -1) }

// account subtracts a pod's requests, times times: 1 allocates, -1 releases.
func (ms *models) account(p *Pod, r *capacity, times int) {
	r.free = ms.instances(r.free, r.model, p.Demand.MIG, -times)
	r.takePlain(p, times)
}

// instances adds a list of instances, times times, to counts in a model's profiles.
func (ms *models) instances(cs []mig.Count, model string, list []demand.Instances, times int) []mig.Count {
	for i := range list {
		p, _ := ms.profile(model, list[i].Name)
		cs = added(cs, p, times*clampCount(list[i].Count))
	}
	return cs
}

// takePlain is account without the MIG instances.
func (r *capacity) takePlain(p *Pod, times int) {
	r.cpu -= int64(times) * max(p.CPUMilli, 0)
	r.memory -= int64(times) * max(p.MemoryMi, 0)
	r.pods -= int64(times)
	r.takeOthers(p.Others, int64(times))
	if p.Demand.GPUs > 0 && sameVendor(p.Demand.Vendor, r.vendor) {
		r.whole -= times * clampCount(p.Demand.GPUs)
	}
	if times < 0 {
		r.releasePorts(p)
		r.releaseParts(p)
		return
	}
	r.ports = append(slices.Clip(r.ports), p.HostPorts...)
	if p.Demand.Fraction != nil {
		r.takeParts(p.Demand.Fraction, p.PartsOn)
	}
}

// freeSlices is the free capacity in compute slices.
func (r *capacity) freeSlices() int {
	n := r.whole * gpuSlices
	for _, c := range r.free {
		n += max(c.N, 0) * c.Profile.Compute
	}
	for _, l := range r.divided {
		n += gpuSlices
		for _, in := range l {
			n -= in.Profile.Compute
		}
	}
	return n
}

func (r capacity) clone() capacity {
	r.parts, r.free, r.divided = slices.Clone(r.parts), slices.Clone(r.free), slices.Clone(r.divided)
	return r
}

// added returns cs with n more of a profile, changed in place; a new profile is
// appended.
func added(cs []mig.Count, p mig.Profile, n int) []mig.Count {
	for i := range cs {
		if cs[i].Profile == p {
			cs[i].N += n
			return cs
		}
	}
	return append(cs, mig.Count{Profile: p, N: n})
}
