package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

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

// readGPU reads the fields of a GPU, of a gpu line or a pool's template.
func readGPU(r *reader, c *plan.GPU) {
	r.text("model", func(s string) error { c.Model = modelOf(s); return nil })
	r.string("vendor", &c.Model.Vendor)
	r.int("memory-mib", &c.Model.MemoryMiB)
	r.string("uuid", &c.UUID)
	r.text("health", func(s string) error {
		for _, h := range []gpu.Health{gpu.HealthUnknown, gpu.Healthy, gpu.Sick} {
			if h.String() == s {
				c.Health = h
				return nil
			}
		}
		return fmt.Errorf("want unknown, healthy or sick: %q", s)
	})
	var instances []plan.Instance
	layout := placements{model: c.Model.Name}
	set := r.items("layout", func(it item) error {
		in, err := parseInstance(&layout, it, r.now)
		instances = append(instances, in)
		return err
	})
	if set {
		c.MIG, c.Instances = true, instances
	}
	r.flag("mig", &c.MIG)
	r.off("no-mig", &c.MIG)
	r.flag("shared", &c.Shared)
	r.int("places", &c.Places)
	var allocatedTo []string
	if r.items("allocated-to", func(it item) error { allocatedTo = append(allocatedTo, it[0].name); return nil }) {
		c.AllocatedTo, c.AllocationKnown = allocatedTo, true
	}
	unknown, known := false, false
	r.flag("allocation-unknown", &unknown)
	r.flag("allocation-known", &known)
	c.AllocationKnown = (c.AllocationKnown || known) && !unknown
	r.ago("gpu-idle", &c.IdleSince)
	r.text("gpu-busy", func(s string) (err error) { c.Busy, err = parseBusy(s); return err })
	r.ago("gpu-unused", &c.UnusedSince)
	readIdle(r, c)
	readUnused(r, c)
}

// readUnused reads unused=2h: everything allocated on the GPU is unused since
// then.
func readUnused(r *reader, c *plan.GPU) {
	var since time.Time
	if !r.ago("unused", &since) {
		return
	}
	if len(c.AllocatedTo) > 0 {
		c.UnusedSince = since
	}
	for i := range c.Instances {
		if in := &c.Instances[i]; in.AllocatedTo != "" {
			in.UnusedSince = since
		}
	}
}

// readIdle reads idle=5m: everything free on the GPU is idle since then.
func readIdle(r *reader, c *plan.GPU) {
	var since time.Time
	if !r.ago("idle", &since) {
		return
	}
	allocated := len(c.AllocatedTo) > 0
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.AllocatedTo == "" {
			in.IdleSince = since
		} else {
			allocated = true
		}
	}
	if !allocated {
		c.IdleSince = since
	}
}

// gpuText writes what readGPU reads, from a blank GPU whose allocation is
// known.
func gpuText(c plan.GPU, now time.Time) string {
	var b strings.Builder
	m := modelOf(c.Model.Name)
	stringText(&b, "model", c.Model.Name)
	if c.Model.Vendor != m.Vendor {
		b.WriteString(" vendor=" + quote(c.Model.Vendor))
	}
	if c.Model.MemoryMiB != m.MemoryMiB {
		b.WriteString(" memory-mib=" + strconv.Itoa(c.Model.MemoryMiB))
	}
	stringText(&b, "uuid", c.UUID)
	if c.Health != gpu.HealthUnknown {
		b.WriteString(" health=" + c.Health.String())
	}
	if c.MIG || len(c.Instances) > 0 {
		words := make([]string, len(c.Instances))
		for i, in := range c.Instances {
			words[i] = instanceText(c.Model.Name, in, now)
		}
		b.WriteString(" layout=(" + strings.Join(words, " ") + ")")
		if !c.MIG {
			b.WriteString(" no-mig")
		}
	}
	flagText(&b, "shared", c.Shared)
	intText(&b, "places", c.Places)
	if len(c.AllocatedTo) > 0 {
		b.WriteString(" allocated-to=" + listText(c.AllocatedTo))
	}
	if !c.AllocationKnown {
		b.WriteString(" allocation-unknown")
	}
	agoText(&b, "gpu-idle", c.IdleSince, now)
	agoText(&b, "gpu-unused", c.UnusedSince, now)
	if _, known := c.Busy.Get(); known {
		b.WriteString(" gpu-busy=" + quote(busyText(c.Busy)))
	}
	return b.String()
}

func listText(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return "(" + strings.Join(quoted, " ") + ")"
}

// sameGPU reports whether two GPUs of a template differ only in their index.
func sameGPU(a, b plan.GPU) bool {
	return gpuText(a, time.Time{}) == gpuText(b, time.Time{}) && a.Busy == b.Busy
}
