package collect

import "strconv"

// DeviceKind is what a Device is.
type DeviceKind uint8

// Kinds of device beside GPUs and instances.
const (
	Switch     DeviceKind = iota // NvSwitch
	SwitchLink                   // NVLink at a switch
	GPULink                      // NVLink at a GPU
	CPU                          // CPU that DCGM knows: Grace
	Core                         // of such a CPU
)

// Device is a part of the machine that DCGM measures beside the GPUs.
type Device struct {
	Kind   DeviceKind
	ID     int // DCGM's number of a switch, CPU or core; of a link its index
	Parent int // the switch or GPU of a link, the CPU of a core
	Values []Value
}

// deviceSeries is a device and the label text of its DCGM series.
type deviceSeries struct {
	device *Device
	labels string
}

// devices returns the selected devices with their labels. A GPU's link has the GPU's pod and
// jobs, as in dcgm-exporter.
func (c *Compiler) devices(r *Reading, m *Moment) []deviceSeries {
	if c.opts.Compat.Mode == CompatOff {
		return nil
	}
	out := make([]deviceSeries, 0, len(r.Devices))
	for i := range r.Devices {
		d := &r.Devices[i]
		if !c.opts.Compat.selectsDevice(d) {
			continue
		}
		of := &subject{entity: &Entity{}}
		for s := range m.gpus {
			if d.Kind == GPULink && s.entity.GPU == d.Parent {
				of = s
			}
		}
		text, holders := c.opts.Compat.deviceText(d, of.entity, r), c.opts.Compat.holders(of)
		if len(holders) == 0 {
			holders = []*labelSet{{}}
		}
		for _, l := range holders {
			out = append(out, deviceSeries{d, joinLabels(text, l.held)})
		}
	}
	return out
}

func (c *CompatOptions) selectsDevice(d *Device) bool {
	switch d.Kind {
	case Switch:
		return c.Switches.Major(d.ID)
	case SwitchLink:
		return c.Switches.Minor(d.ID)
	case CPU:
		return c.CPUs.Major(d.ID)
	case Core:
		return c.CPUs.Minor(d.ID)
	}
	return c.Devices.Major(d.Parent) // of a GPU
}

// deviceText renders dcgm-exporter's labels of a device, and the label-type counters that it
// has a value of. dev is the device's GPU.
func (c *CompatOptions) deviceText(d *Device, dev *Entity, r *Reading) string {
	id, parent := strconv.Itoa(d.ID), strconv.Itoa(d.Parent)
	var of []string
	switch d.Kind {
	case Switch:
		of = []string{"nvswitch", "nvswitch" + id}
	case SwitchLink:
		of = []string{"nvlink", id, "nvswitch", "nvswitch" + parent}
	case GPULink:
		of = []string{"nvlink", id, "gpu", parent, "gpu_uuid", dev.UUID, "pci_bus_id", dev.PCIBusID, "device", "nvidia" + parent, "model_name", dev.Model}
	case CPU:
		of = []string{"cpu", id}
	case Core:
		of = []string{"cpucore", id, "cpu", parent}
	}
	driver := ""
	if len(r.Entities) > 0 { // the machine has one
		driver = r.Entities[0].DriverVersion
	}
	return joinLabels(labelText(append(of, "hostname", c.Hostname)...), c.labelCounters(d.Value, driver))
}

// addDevices adds a field's value of every device that has one.
func (c *CompatOptions) addDevices(m *Moment, field uint16, page *pageFamily) {
	for i := range m.devices {
		d := &m.devices[i]
		if v, ok := d.device.Value(field); ok && !v.IsText {
			page.add(d.labels, v.Number, v.Time)
		}
	}
}
