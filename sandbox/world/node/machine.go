package node

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Spec of a machine.
type Spec struct {
	Name    string
	Product string // as GFD reports it: "NVIDIA-H100-80GB-HBM3"
	GPUs    int
	// Layouts are the instances of each GPU at boot, without MIG empty. A single entry is for all GPUs.
	Layouts []mig.Layout
	Delays  Delays
}

// Delays are times of the host software.
type Delays struct {
	Pause     time.Duration // until mig-manager's clients have ended
	Apply     time.Duration // duration of mig-parted's work
	Enumerate time.Duration // device plugin: from start to first report
}

// DefaultDelays are a real node's delays, about ten times shorter.
func DefaultDelays() Delays {
	return Delays{Pause: time.Second, Apply: time.Second, Enumerate: time.Second}
}

// GPU is a physical GPU.
type GPU struct {
	Index     int
	UUID      string // "GPU-…"
	PCIBusID  string
	MIG       bool
	Instances []Instance // by start
}

// Instance is a MIG instance of a GPU.
type Instance struct {
	mig.Placement
	ID      int    // GPU instance id
	UUID    string // "MIG-…"
	Profile string // "3g.40gb"
}

// Layout of the GPU.
func (c GPU) Layout() mig.Layout {
	ps := make([]mig.Placement, len(c.Instances))
	for i, in := range c.Instances {
		ps[i] = in.Placement
	}
	return mig.NewLayout(ps...)
}

// Machine is a GPU node. It is not safe for concurrent use and has no clock.
type Machine struct {
	spec      Spec
	model     gpu.Model
	table     *mig.Table // nil: the product has no MIG
	gpus      []GPU
	allocated map[string]Holding    // by device id
	known     map[string]registered // all extended resources that were ever advertised
	plugin    plugin
	manager   manager

	exporter bool // runs, and has the GPUs open
}

// New returns a machine that starts its device plugin now.
func New(spec Spec, now time.Time) (*Machine, error) {
	model, ok := gpu.ParseProduct(spec.Product)
	if !ok {
		return nil, fmt.Errorf("node %s: unknown product %q", spec.Name, spec.Product)
	}
	m := &Machine{spec: spec, model: model, allocated: map[string]Holding{}, known: map[string]registered{}}
	m.table, _ = mig.ForModel(model.Name)
	if n := len(spec.Layouts); n > 1 && n != spec.GPUs || spec.GPUs < 1 {
		return nil, fmt.Errorf("node %s: %d layouts for %d GPUs", spec.Name, n, spec.GPUs)
	}
	for i := range spec.GPUs {
		dev := GPU{
			Index:    i,
			UUID:     "GPU-" + uuid(spec.Name, i),
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x0f+i*0x10),
			MIG:      len(spec.Layouts) > 0,
		}
		if dev.MIG {
			layout := spec.Layouts[min(i, len(spec.Layouts)-1)]
			if err := m.lay(&dev, layout); err != nil {
				return nil, fmt.Errorf("node %s, GPU %d: %w", spec.Name, i, err)
			}
		}
		m.gpus = append(m.gpus, dev)
	}
	m.plugin.start(now, spec.Delays.Enumerate)
	return m, nil
}

// lay replaces the instances of a GPU.
func (m *Machine) lay(dev *GPU, layout mig.Layout) error {
	if m.table == nil {
		return fmt.Errorf("%s has no MIG", m.spec.Product)
	}
	if err := m.table.Legal(layout); err != nil {
		return err
	}
	dev.Instances = nil
	for _, p := range mig.NewLayout(layout...) {
		id := instanceID(p)
		dev.Instances = append(dev.Instances, Instance{
			Placement: p,
			ID:        id,
			UUID:      "MIG-" + uuid(dev.UUID, id),
			Profile:   m.table.Name(p.Profile),
		})
	}
	return nil
}

// instanceID numbers instances as the driver does: by size, then by placement.
func instanceID(p mig.Placement) int {
	switch {
	case p.Profile.Compute >= 7:
		return 0
	case p.Profile.Compute >= 3:
		return 1 + p.Start/4
	case p.Profile.Compute == 2:
		return 3 + p.Start/2
	case p.Profile.Memory == 3: // three of twelve memory units count as one of four
		return 3 + p.Start/3
	}
	return 7 + p.Start
}

// uuid is deterministic for the same parts, as the driver's UUIDs are.
func uuid(parts ...any) string {
	h := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// Name of the node.
func (m *Machine) Name() string { return m.spec.Name }

// Product as GFD reports it.
func (m *Machine) Product() string { return m.spec.Product }

// Model of the GPUs.
func (m *Machine) Model() gpu.Model { return m.model }

// Table of the product's MIG profiles; nil without MIG.
func (m *Machine) Table() *mig.Table { return m.table }

// GPUs returns a copy of all GPUs.
func (m *Machine) GPUs() []GPU {
	out := slices.Clone(m.gpus)
	for i := range out {
		out[i].Instances = slices.Clone(out[i].Instances)
	}
	return out
}
