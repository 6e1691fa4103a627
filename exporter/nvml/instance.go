package nvml

import (
	"cmp"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// migDevice is a MIG device of a GPU: an instance, with the first of its
// compute instances.
type migDevice struct {
	handle   nvml.Device
	instance int // GPU instance id
}

// migDevices lists a GPU's instances by id. Places without one are normal, and
// an instance with several compute instances comes once.
func (l *library) migDevices(dev nvml.Device) []migDevice {
	for _, name := range []string{"nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId"} {
		if !l.has(name) {
			return nil
		}
	}
	most, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var devices []migDevice
	for i := range most {
		handle, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		id, ret := handle.GetGpuInstanceId()
		if ret != nvml.SUCCESS || slices.ContainsFunc(devices, func(d migDevice) bool { return d.instance == id }) {
			continue
		}
		devices = append(devices, migDevice{handle, id})
	}
	slices.SortFunc(devices, func(a, b migDevice) int { return cmp.Compare(a.instance, b.instance) })
	return devices
}

// instances adds the instances of the GPU at an index of the reading.
func (p *pass) instances(dev nvml.Device, at int) {
	for _, d := range p.lib.migDevices(dev) {
		e := p.reading.Entities[at]
		e.Kind, e.InstanceID, e.Start, e.Values = collect.Instance, d.instance, -1, nil
		if uuid, ret := d.handle.GetUUID(); ret == nvml.SUCCESS {
			e.InstanceUUID = uuid
		}
		if name, ret := d.handle.GetName(); ret == nvml.SUCCESS {
			e.Profile = profileOf(name)
		}
		if p.lib.has("nvmlDeviceGetAttributes_v2") {
			if a, ret := d.handle.GetAttributes(); ret == nvml.SUCCESS {
				e.ComputeSlices = int(a.GpuInstanceSliceCount)
			}
		}
		if where, ok := p.placement(dev, d.instance, e.InstanceUUID); ok {
			e.Start, e.Size = where.start, where.size
		}
		e.Values = p.values(d.handle, place{e.UUID, d.instance}, dev)
		p.reading.Entities = append(p.reading.Entities, e)
	}
}

// profileOf reads the profile at the end of a MIG device's name: "NVIDIA H100
// 80GB HBM3 MIG 3g.40gb". Of a compute instance that does not fill its GPU
// instance ("1c.3g.40gb") the GPU instance's profile is what counts.
func profileOf(name string) string {
	_, profile, ok := strings.Cut(name, " MIG ")
	if !ok {
		return ""
	}
	if first, rest, repartition := strings.Cut(profile, "."); repartition && strings.HasSuffix(first, "c") {
		return rest
	}
	return profile
}

// placement asks once for each instance made: its place never changes. It needs
// rights that not every container has.
func (p *pass) placement(dev nvml.Device, id int, uuid string) (placement, bool) {
	if where, known := p.places[uuid]; known && uuid != "" {
		return where, where.size > 0
	}
	var where placement
	if p.lib.has("nvmlDeviceGetGpuInstanceById") && p.lib.has("nvmlGpuInstanceGetInfo") {
		if instance, ret := dev.GetGpuInstanceById(id); ret == nvml.SUCCESS {
			if info, ret := instance.GetInfo(); ret == nvml.SUCCESS {
				where = placement{int(info.Placement.Start), int(info.Placement.Size)}
			}
		}
	}
	if len(p.places) > 1024 { // instances come and go with their UUIDs
		clear(p.places)
	}
	p.places[uuid] = where
	return where, where.size > 0
}
