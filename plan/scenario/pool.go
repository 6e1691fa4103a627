package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

func (w *World) pool(x *fields, name string) {
	state := &w.Sim.State
	i := slices.IndexFunc(state.Pools, func(p plan.Pool) bool { return p.Name == name })
	if i < 0 {
		state.Pools = append(state.Pools, plan.Pool{Name: name})
		i = len(state.Pools) - 1
	}
	p := &state.Pools[i]
	size, target := x.count("size", &p.Size), x.count("target", &p.Target)
	if size && !target {
		p.Target = p.Size
	}
	w.sized[name], w.targeted[name] = w.sized[name] || size, w.targeted[name] || size || target
	poolFields(x, p)
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
	x.time("backoff", &p.BackoffUntil, in)
	x.either("freeze", "thaw", &p.Freeze, false)
	x.flag("fixed", &p.Fixed)
	x.value("repartition", !p.MIG.Repartition, func() string {
		if p.MIG.KeepsBusy {
			return "keep-busy"
		}
		return "idle"
	}, func(s string) error {
		switch s {
		case "no", "idle", "keep-busy":
			p.MIG.Repartition, p.MIG.KeepsBusy = s != "no", s == "keep-busy"
			return nil
		}
		return fmt.Errorf("want no, idle or keep-busy: %q", s)
	})
	x.either("keeps-busy", "", &p.MIG.KeepsBusy, p.MIG.KeepsBusy && p.MIG.Repartition)
	x.duration("mig-idle-after", &p.MIG.IdleAfter)
	x.duration("mig-duration", &p.MIG.Duration)
	t := &p.Template
	x.quantity("cpu", &t.CPUMilli, cpuUnits)
	x.quantity("memory", &t.MemoryMi, memoryUnits)
	equalGPUs(x, &t.GPUs)
	model := ""
	if len(t.GPUs) > 0 {
		model = t.GPUs[0].Model.Name
	}
	if x.out != nil && !alike(t.GPUs) {
		model = "" // they are written behind it
	}
	list(x, "mig-allowed", &p.MIG.Allowed, func(a mig.Profile) string { return quote(profileText(model, a)) }, func(it item) (mig.Profile, error) {
		return parseProfile(model, it[0].name)
	})
	x.labels("labels", &t.Labels)
	taintFields(x, &t.Taints)
	resourceFields(x, &t.Others)
	portFields(x, &t.HostPorts)
	x.string("differs", &t.Differs)
}

// maxGPUs bounds the GPUs of one line; no node has more.
const maxGPUs = 1024

// equalGPUs is the number of a node's GPUs, and the words of one of them. It writes
// those of a template, where they are alike.
func equalGPUs(x *fields, gpus *[]plan.GPU) {
	n, device := len(*gpus), plan.GPU{AllocationKnown: true}
	if x.out != nil {
		if n > 0 && alike(*gpus) {
			x.count("gpus", &n)
			gpuFields(x, &(*gpus)[0])
		}
		return
	}
	if !x.count("gpus", &n) {
		return
	}
	if n < 0 || n > maxGPUs {
		x.fail("gpus", "want 0 … %d", maxGPUs)
		n = 0
	}
	gpuFields(x, &device)
	*gpus = nil
	for i := range n {
		c := device
		c.Index, c.Instances = i, slices.Clone(device.Instances)
		*gpus = append(*gpus, c)
	}
}

// alike reports whether equal GPUs can be written once, with their number.
func alike(gpus []plan.GPU) bool {
	if len(gpus) > maxGPUs {
		return false
	}
	for i, c := range gpus {
		if c.Index != i || gpuText(c, time.Time{}) != gpuText(gpus[0], time.Time{}) || c.Busy != gpus[0].Busy {
			return false
		}
	}
	return true
}
