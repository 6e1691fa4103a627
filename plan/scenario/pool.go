package scenario

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

func (w *World) pool(x *fields, name string) {
	p := w.poolOf(name)
	if p == nil {
		w.Sim.State.Pools = append(w.Sim.State.Pools, plan.Pool{Name: name})
		p = w.poolOf(name)
	}
	size, target := x.count("size", &p.Size), x.count("target", &p.Target)
	if size && !target {
		p.Target = p.Size
	}
	w.sized[name], w.targeted[name] = w.sized[name] || size, w.targeted[name] || size || target
	poolFields(x, p)
}

// poolOf is the pool of a name, nil for none.
func (w *World) poolOf(name string) *plan.Pool {
	for i := range w.Sim.State.Pools {
		if p := &w.Sim.State.Pools[i]; p.Name == name {
			return p
		}
	}
	return nil
}

func poolFields(x *fields, p *plan.Pool) {
	x.count("min", &p.Min)
	x.count("max", &p.Max)
	x.float("price", &p.PricePerHour)
	integer(x, "priority", &p.Priority, p.Priority == 0)
	x.either("spot", "on-demand", &p.Spot, false)
	x.float("interruptions", &p.InterruptionsPerHour)
	x.duration("ready-after", &p.ReadyAfter)
	x.duration("idle-after", &p.IdleAfter)
	x.flag("idle-adapts", &p.IdleAdapts)
	x.time("backoff", &p.BackoffUntil, in)
	x.int("failed", &p.Failed)
	x.string("failed-why", &p.FailedWhy)
	x.either("freeze", "thaw", &p.Freeze, false)
	x.flag("fixed", &p.Fixed)
	repartition := "idle"
	if p.MIG.KeepsBusy {
		repartition = "keep-busy"
	}
	if oneOf(x, "repartition", &repartition, !p.MIG.Repartition, "no", "idle", "keep-busy") {
		p.MIG.Repartition, p.MIG.KeepsBusy = repartition != "no", repartition == "keep-busy"
	}
	x.either("keeps-busy", "", &p.MIG.KeepsBusy, p.MIG.KeepsBusy && p.MIG.Repartition)
	x.duration("mig-idle-after", &p.MIG.IdleAfter)
	x.duration("mig-duration", &p.MIG.Duration)
	t := &p.Template
	x.quantity("cpu", &t.CPUMilli, cpuUnits)
	x.quantity("memory", &t.MemoryMi, memoryUnits)
	equalGPUs(x, &t.GPUs)
	model := ""
	if len(t.GPUs) > 0 && (x.out == nil || alike(t.GPUs)) { // GPUs that differ are written in later lines
		model = t.GPUs[0].Model.Name
	}
	list(x, "mig-allowed", &p.MIG.Allowed, func(x *fields, a *mig.Profile) {
		x.head(func() string { return profileText(model, *a) }, func(s string) (err error) { *a, err = parseProfile(model, s); return err })
	})
	x.labels("labels", &t.Labels)
	taintFields(x, &t.Taints)
	resourceFields(x, &t.Others)
	portFields(x, &t.HostPorts)
	x.names("groups", &t.Groups)
	x.string("differs", &t.Differs)
}

// maxGPUs bounds the GPUs of one line; no node has more.
const maxGPUs = 1024

// equalGPUs is a number of equal GPUs, and the fields of one of them. They are read for a node
// or a template, and written for a template whose GPUs are alike.
func equalGPUs(x *fields, gpus *[]plan.GPU) {
	n := len(*gpus)
	switch {
	case x.out != nil && n > 0 && alike(*gpus):
		x.count("gpus", &n)
		gpuFields(x, &(*gpus)[0])
	case x.out == nil && x.count("gpus", &n):
		if n < 0 || n > maxGPUs {
			x.fail("gpus", "want 0 … %d", maxGPUs)
			n = 0
		}
		device := plan.GPU{AllocationKnown: true}
		gpuFields(x, &device)
		*gpus = nil
		for i := range n {
			c := device
			c.Index, c.Instances = i, slices.Clone(device.Instances)
			*gpus = append(*gpus, c)
		}
	}
}

// alike reports whether GPUs can be written as one GPU and their number.
func alike(gpus []plan.GPU) bool {
	text := func(c plan.GPU) string { return written(time.Time{}, func(x *fields) { gpuFields(x, &c) }) }
	for i, c := range gpus {
		if c.Index != i || text(c) != text(gpus[0]) || c.Busy != gpus[0].Busy {
			return false
		}
	}
	return len(gpus) <= maxGPUs
}
