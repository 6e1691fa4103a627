package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/forecast"
)

// gpu changes a GPU of a node (or, with the word template, of a pool), and adds
// it when there is none of that index. The word fails makes its next
// repartition fail in the simulated world.
func (w *World) gpu(x *fields, name string) error {
	slash := strings.LastIndexByte(name, '/')
	index, err := strconv.Atoi(name[slash+1:])
	if slash < 0 || err != nil {
		return fmt.Errorf("want node/index: %q", name)
	}
	template := x.has("template")
	if x.has("fails") {
		w.Sim.Fail = append(w.Sim.Fail, name)
	}
	gpus := w.gpusOf(name[:slash], template)
	if gpus == nil {
		return fmt.Errorf("there is no %s above", name[:slash])
	}
	i := slices.IndexFunc(*gpus, func(c plan.GPU) bool { return c.Index == index })
	if i < 0 {
		c := plan.GPU{AllocationKnown: true}
		c.Index = index
		*gpus = append(*gpus, c)
		i = len(*gpus) - 1
	}
	gpuFields(x, &(*gpus)[i])
	return nil
}

// gpusOf looks from the end: a gpu line mostly follows its node, and a large
// cluster has as many nodes as lines.
func (w *World) gpusOf(name string, template bool) *[]plan.GPU {
	state := &w.Sim.State
	if template {
		for i := len(state.Pools) - 1; i >= 0; i-- {
			if state.Pools[i].Name == name {
				return &state.Pools[i].Template.GPUs
			}
		}
		return nil
	}
	for i := len(state.Nodes) - 1; i >= 0; i-- {
		if state.Nodes[i].Name == name {
			return &state.Nodes[i].GPUs
		}
	}
	return nil
}

// modelOf is the model of a name; vendor and memory are written only where they
// differ from it. An unknown product is NVIDIA's, of unknown memory.
func modelOf(name string) gpu.Model {
	m := gpu.Model{Name: name}
	if known, ok := gpu.ParseProduct(name); ok {
		m.Vendor, m.MemoryMiB = known.Vendor, known.MemoryMiB
	} else if name != "" {
		m.Vendor = "nvidia"
	}
	return m
}

// gpuFields are those of a gpu line or a pool's template, from a blank GPU whose
// allocation is known.
func gpuFields(x *fields, c *plan.GPU) {
	x.value("model", c.Model.Name == "", func() string { return c.Model.Name }, func(s string) error { c.Model = modelOf(s); return nil })
	m := modelOf(c.Model.Name)
	x.value("vendor", c.Model.Vendor == m.Vendor, func() string { return c.Model.Vendor }, func(s string) error { c.Model.Vendor = s; return nil })
	integer(x, "memory-mib", &c.Model.MemoryMiB, c.Model.MemoryMiB == m.MemoryMiB)
	x.string("uuid", &c.UUID)
	x.value("health", c.Health == gpu.HealthUnknown, func() string { return c.Health.String() }, func(s string) error {
		for _, h := range []gpu.Health{gpu.HealthUnknown, gpu.Healthy, gpu.Sick} {
			if h.String() == s {
				c.Health = h
				return nil
			}
		}
		return fmt.Errorf("want unknown, healthy or sick: %q", s)
	})
	layout := placements{model: c.Model.Name}
	if parts(x, "layout", &c.Instances, func(i plan.Instance) string { return placementText(c.Model.Name, i.Placement) }, func(s segment) (plan.Instance, error) {
		p, err := layout.read(s.name)
		return plan.Instance{Placement: p, Placed: true}, err
	}, instanceFields) {
		c.MIG = true
	}
	x.either("mig", "no-mig", &c.MIG, len(c.Instances) > 0)
	x.flag("shared", &c.Shared)
	x.int("places", &c.Places)
	c.AllocationKnown = x.names("allocated-to", &c.AllocatedTo) || c.AllocationKnown
	x.either("allocation-known", "allocation-unknown", &c.AllocationKnown, true)
	x.time("gpu-idle", &c.IdleSince, ago)
	x.time("gpu-unused", &c.UnusedSince, ago)
	x.busy("gpu-busy", &c.Busy)
	if x.out == nil {
		readIdle(x, c)
		readUnused(x, c)
	}
}

// readUnused reads unused=2h: everything allocated on the GPU is unused since
// then.
func readUnused(x *fields, c *plan.GPU) {
	var since time.Time
	if !x.time("unused", &since, ago) {
		return
	}
	if len(c.AllocatedTo) > 0 {
		c.UnusedSince = since
	}
	for i := range c.Instances {
		if instance := &c.Instances[i]; instance.AllocatedTo != "" {
			instance.UnusedSince = since
		}
	}
}

// readIdle reads idle=5m: everything free on the GPU is idle since then.
func readIdle(x *fields, c *plan.GPU) {
	var since time.Time
	if !x.time("idle", &since, ago) {
		return
	}
	allocated := len(c.AllocatedTo) > 0
	for i := range c.Instances {
		if instance := &c.Instances[i]; instance.AllocatedTo == "" {
			instance.IdleSince = since
		} else {
			allocated = true
		}
	}
	if !allocated {
		c.IdleSince = since
	}
}

func gpuText(c plan.GPU, now time.Time) string {
	return written(now, func(x *fields) { gpuFields(x, &c) })
}

// busy is "0.93~15s": a share and its age.
func (x *fields) busy(key string, v *sample.Value) {
	n, known := v.Get()
	age, _ := v.Age()
	x.value(key, !known, func() string { return strconv.FormatFloat(n, 'g', -1, 64) + "~" + forecast.Short(age) }, func(s string) error {
		number, age, _ := strings.Cut(s, "~")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return err
		}
		d, err := time.ParseDuration(cmp.Or(age, "0s"))
		*v = sample.Known(n, d)
		return err
	})
}
