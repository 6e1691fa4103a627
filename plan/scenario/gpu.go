package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
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
	c := plan.GPU{Device: gpu.Device{Index: index}, AllocationKnown: true}
	i := slices.IndexFunc(*gpus, func(c plan.GPU) bool { return c.Index == index })
	if i < 0 {
		*gpus = append(*gpus, c)
		i = len(*gpus) - 1
	}
	gpuFields(x, &(*gpus)[i])
	slices.SortFunc(*gpus, func(a, b plan.GPU) int { return cmp.Compare(a.Index, b.Index) })
	return nil
}

// gpusOf returns the GPUs of a node, or of a pool's template; nil for none. It searches the
// nodes from the end, since a gpu line mostly follows its node: otherwise a file with many
// nodes would take quadratic time.
func (w *World) gpusOf(name string, template bool) *[]plan.GPU {
	if p := w.poolOf(name); p != nil && template {
		return &p.Template.GPUs
	}
	for i := len(w.Sim.State.Nodes) - 1; i >= 0 && !template; i-- {
		if n := &w.Sim.State.Nodes[i]; n.Name == name {
			return &n.GPUs
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

// gpuFields are the fields of a GPU, in a gpu line or in a pool's template. A new GPU has
// AllocationKnown set before they are read.
func gpuFields(x *fields, c *plan.GPU) {
	if x.string("model", &c.Model.Name) {
		c.Model = modelOf(c.Model.Name)
	}
	m := modelOf(c.Model.Name)
	text(x, "vendor", &c.Model.Vendor, c.Model.Vendor == m.Vendor)
	integer(x, "memory-mib", &c.Model.MemoryMiB, c.Model.MemoryMiB == m.MemoryMiB)
	x.string("uuid", &c.UUID)
	oneOf(x, "health", &c.Health, c.Health == gpu.HealthUnknown, gpu.HealthUnknown, gpu.Healthy, gpu.Sick)
	places := placements{model: c.Model.Name}
	if list(x, "layout", &c.Instances, func(x *fields, i *plan.Instance) {
		i.Placed = i.Placed || x.out == nil
		places.entry(x, &i.Placement)
		x.string("allocated-to", &i.AllocatedTo)
		x.time("idle", &i.IdleSince, ago)
		x.time("unused", &i.UnusedSince, ago)
		x.string("uuid", &i.UUID)
		x.busy("busy", &i.Busy)
		x.either("", "unplaced", &i.Placed, true)
	}) {
		c.MIG = true
		slices.SortStableFunc(c.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
	}
	x.either("mig", "no-mig", &c.MIG, len(c.Instances) > 0)
	x.flag("shared", &c.Shared)
	x.flag("by-claim", &c.ByClaim)
	x.int("places", &c.Places)
	c.AllocationKnown = x.names("allocated-to", &c.AllocatedTo) || c.AllocationKnown
	x.either("allocation-known", "allocation-unknown", &c.AllocationKnown, true)
	x.time("gpu-idle", &c.IdleSince, ago)
	x.time("gpu-unused", &c.UnusedSince, ago)
	x.busy("gpu-busy", &c.Busy)
	if x.out == nil {
		readSince(x, c)
	}
}

// readSince reads idle=5m, since when everything free on the GPU is idle, and unused=2h,
// since when everything allocated on it is unused.
func readSince(x *fields, c *plan.GPU) {
	var idle, unused time.Time
	isIdle, isUnused := x.time("idle", &idle, ago), x.time("unused", &unused, ago)
	allocated := len(c.AllocatedTo) > 0
	if isUnused && allocated {
		c.UnusedSince = unused
	}
	for i := range c.Instances {
		switch in := &c.Instances[i]; {
		case in.AllocatedTo != "":
			allocated = true
			if isUnused {
				in.UnusedSince = unused
			}
		case isIdle:
			in.IdleSince = idle
		}
	}
	if isIdle && !allocated {
		c.IdleSince = idle
	}
}

// busy is "0.93~15s": a share and its age.
func (x *fields) busy(key string, v *sample.Value) {
	n, known := v.Get()
	age, _ := v.Age()
	x.value(key, !known, func() string { return strconv.FormatFloat(n, 'g', -1, 64) + "~" + sample.Short(age) }, func(s string) error {
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

// profileText names a profile as the model does, or in bare slices ("c3m4a0")
// where no name parses back.
func profileText(model string, p mig.Profile) string {
	if t, ok := mig.ForModel(model); ok && t.Has(p) {
		return t.Name(p)
	}
	return fmt.Sprintf("c%dm%da%d", p.Compute, p.Memory, p.Attrs)
}

func parseProfile(model, s string) (mig.Profile, error) {
	var p mig.Profile
	if n, err := fmt.Sscanf(s, "c%dm%da%d", &p.Compute, &p.Memory, &p.Attrs); err == nil && n == 3 {
		return p, nil
	}
	t, ok := mig.ForModel(model)
	if !ok {
		return p, fmt.Errorf("profile %q: the model %q has no table", s, model)
	}
	return t.Lookup(s)
}

// placements are entries "3g.40gb@0" of a list. A start alone is one more instance of the
// profile before it, as plans print it ("1g.10gb@0,1,2").
type placements struct{ model, profile string }

func (l *placements) entry(x *fields, p *mig.Placement) {
	x.head(func() string { return profileText(l.model, p.Profile) + "@" + strconv.Itoa(p.Start) }, func(s string) (err error) {
		i := strings.LastIndexByte(s, '@')
		if _, err := strconv.ParseUint(s, 10, 31); err != nil || l.profile == "" {
			if i < 0 {
				return fmt.Errorf("%q: want profile@start", s)
			}
			l.profile = s[:i]
		}
		if p.Start, err = strconv.Atoi(s[i+1:]); err != nil {
			return fmt.Errorf("%q: the start is not a number", s)
		}
		p.Profile, err = parseProfile(l.model, l.profile)
		return err
	})
}
