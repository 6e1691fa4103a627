package collect

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// Compat says how the DCGM_* series are served: a value of --compat.
type Compat string

// Ways to serve the DCGM names.
const (
	// CompatExact serves dcgm-exporter's series: a GPU partitioned into MIG
	// instances shows its instances only, and each repeats the GPU's own
	// quantities (power, temperature, clocks), so a sum counts them several
	// times.
	CompatExact Compat = "true"
	// CompatOnce has each quantity once: the GPU's on the GPU.
	CompatOnce Compat = "once"
	// CompatOff has no DCGM names.
	CompatOff Compat = "false"
)

// CompatOptions shape the labels of the DCGM series as dcgm-exporter's flags do.
type CompatOptions struct {
	Mode     Compat
	Counters []counters.Field
	// Hostname is the value of the hostname label; empty leaves it out (-n).
	Hostname string
	// OldNamespace uses the label names from before Kubernetes 1.16:
	// pod_name, pod_namespace, container_name, uuid (-o).
	OldNamespace bool
	// DashedModel replaces blanks in the model name by dashes.
	DashedModel bool
	// Devices, Switches and CPUs are which entities have DCGM series (-d, -s, -p).
	Devices, Switches, CPUs Selection
	// VirtualGPUs names the shares of time-sliced and MPS GPUs (vgpu) and gives
	// each container its own part of GPU_UTIL and FB_USED where the driver
	// measures it (--kubernetes-virtual-gpus).
	VirtualGPUs bool
	// XIDWindow and ClockEventsWindow are how far back DCGM_EXP_XID_ERRORS_COUNT
	// and DCGM_EXP_CLOCK_EVENTS_COUNT count.
	XIDWindow, ClockEventsWindow time.Duration
}

// Fields returns the DCGM fields that the DCGM series are made of, in no order.
func (c *CompatOptions) Fields() []uint16 {
	if c.Mode == CompatOff {
		return nil
	}
	var fields []uint16
	for i := range c.Counters {
		f := &c.Counters[i]
		if f.ID > fieldDriverVersion || f.Kind != counters.Label { // the driver version is part of every Entity
			fields = append(fields, MadeOf(f))
		}
	}
	return fields
}

// selects reports whether the entity has DCGM series. With -d f and CompatExact
// a partitioned GPU has none: its instances stand for it.
func (c *CompatOptions) selects(e *Entity, split bool) bool {
	switch e.Kind {
	case Instance:
		return c.Devices.Minor(e.DCGMID)
	case GPULink:
		return c.Devices.Major(e.Parent)
	case Switch:
		return c.Switches.Major(e.DCGMID)
	case SwitchLink:
		return c.Switches.Minor(e.DCGMID)
	case CPU:
		return c.CPUs.Major(e.DCGMID)
	case Core:
		return c.CPUs.Minor(e.DCGMID)
	}
	return c.Devices.Major(e.GPU) && !(split && c.Mode == CompatExact && c.Devices.Flexible())
}

// perInstance reports whether a field is measured on the instance itself, according to
// DCGM's field table. Every other field is the GPU's: asked about an instance, DCGM
// answers with the GPU's number.
func perInstance(field uint16) bool {
	switch {
	case field == 50 || field == 54 || field == 68, field >= 90 && field <= 93: // names, BAR1
		return true
	case field == FieldXID:
		return true
	case field >= fieldFBTotal && field <= 254: // frame buffer
		return true
	case field >= 203 && field <= 207: // utilization: the driver has none under MIG
		return true
	}
	return Profiled(field)
}

// compatValue is the value that a DCGM series of the subject shows.
func (c *CompatOptions) compatValue(m *Moment, s *subject, field uint16) Value {
	v := s.entity.number(field)
	if s.entity.Kind == Instance && !perInstance(field) {
		switch {
		case c.Mode == CompatOnce:
			return Value{}
		case !v.Known():
			return m.subjects[s.device].entity.number(field)
		}
	}
	return v
}

// families returns the DCGM series of a Moment in the counters file's order.
func (c *CompatOptions) families(m *Moment) []pageFamily {
	out := make([]pageFamily, 0, len(c.Counters))
	for i := range c.Counters {
		f := &c.Counters[i]
		if f.Kind == counters.Label {
			continue
		}
		page := pageFamily{name: f.Name, help: f.Help, kind: string(f.Kind), maxAge: StaleAfter(max(f.Every, leastEvery(f.ID)))}
		if f.Computed() {
			computed[f.ID].add(c, m, &page)
		} else {
			c.addField(m, f.ID, &page)
			for i := range page.samples {
				page.samples[i].value = f.Value(page.samples[i].value)
			}
		}
		out = append(out, page)
	}
	return out
}

// addField adds a field's value of every entity selected.
func (c *CompatOptions) addField(m *Moment, field uint16, page *pageFamily) {
	for _, list := range [][]subject{m.devices, m.subjects} {
		for i := range list {
			s := &list[i]
			v := c.compatValue(m, s, field)
			if !s.selected || !v.Known() || c.addShares(s, field, v, page) {
				continue
			}
			for _, l := range c.holders(s) {
				if field == FieldXID {
					page.add(l.xid(int(v.Number)), v.Number, m.taken)
				} else {
					page.add(l.compat, v.Number, v.Time)
				}
			}
		}
	}
}

// holders returns the label sets of a subject's value. With VirtualGPUs there is one for each
// container that shares the subject, as in dcgm-exporter, so a sum counts the value several
// times. CompatOnce has one set, without a container.
func (c *CompatOptions) holders(s *subject) []*labelSet {
	if !c.VirtualGPUs || c.Mode != CompatExact || len(s.allocations) < 2 || len(s.dcgm) != 1 {
		return s.dcgm
	}
	var out []*labelSet
	for i := range s.allocations {
		out = append(out, s.allocations[i].labels)
	}
	return out
}

// labels renders what identifies the entity in the DCGM series, in dcgm-exporter's order.
func (c *CompatOptions) labels(e *Entity) string {
	uuid, index, instance, model := "UUID", strconv.Itoa(e.GPU), "", e.Model
	if c.OldNamespace {
		uuid = "uuid"
	}
	if c.DashedModel {
		model = strings.Join(strings.Fields(model), "-")
	}
	id, parent := strconv.Itoa(e.DCGMID), strconv.Itoa(e.Parent)
	switch e.Kind {
	case Instance:
		instance = strconv.Itoa(e.InstanceID)
	case Switch:
		return labelText("nvswitch", "nvswitch"+id, "hostname", c.Hostname)
	case SwitchLink:
		return labelText("nvlink", id, "nvswitch", "nvswitch"+parent, "hostname", c.Hostname)
	case GPULink:
		return labelText("nvlink", id, "gpu", parent, "gpu_uuid", e.UUID, "pci_bus_id", e.PCIBusID, "device", "nvidia"+parent, "model_name", e.Model, "hostname", c.Hostname)
	case CPU:
		return labelText("cpu", id, "hostname", c.Hostname)
	case Core:
		return labelText("cpucore", id, "cpu", parent, "hostname", c.Hostname)
	}
	return labelText("gpu", index, uuid, e.UUID, "pci_bus_id", e.PCIBusID, "device", "nvidia"+index, "modelName", model,
		"GPU_I_PROFILE", e.Profile, "GPU_I_ID", instance, "hostname", c.Hostname)
}

// held renders the DCGM labels of the allocation. ofPod is the text of the pod's own labels.
func (c *CompatOptions) held(h Allocated, job, ofPod string) string {
	pod, namespace, container := "pod", "namespace", "container"
	if c.OldNamespace {
		pod, namespace, container = "pod_name", "pod_namespace", "container_name"
	}
	vgpu := "" // a container with several shares of one GPU has one series: "0,2"
	if c.VirtualGPUs {
		vgpu = strings.Join(h.Shares, ",")
	}
	claim := h.Claim
	return joinLabels(labelText(container, h.Container, "hpc_job", job, namespace, h.Namespace, pod, h.Pod,
		"dra_claim_name", claim.Name, "dra_claim_namespace", claim.Namespace, "dra_driver_name", claim.Driver, "dra_pool_name", claim.Pool,
		"dra_device_name", claim.Device, "dra_mig_profile", claim.MIGProfile, "dra_mig_device_uuid", claim.MIGUUID, "vgpu", vgpu), ofPod)
}

// extra renders the label-type counters of an entity; an instance takes the
// GPU's where it has none of its own. The driver's version is known without asking for the field.
func (c *CompatOptions) extra(e, device *Entity) string {
	var b []byte
	for i := range c.Counters {
		f := &c.Counters[i]
		if f.Kind != counters.Label {
			continue
		}
		v, ok := e.Value(f.ID)
		if !ok {
			v, ok = device.Value(f.ID)
		}
		switch {
		case ok && v.IsText:
			b = appendLabel(b, f.Name, v.Text)
		case ok:
			b = appendLabel(b, f.Name, strconv.FormatFloat(f.Value(v.Number), 'f', -1, 64))
		case f.ID == fieldDriverVersion:
			b = appendLabel(b, f.Name, e.DriverVersion)
		}
	}
	return string(b)
}
