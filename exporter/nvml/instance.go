package nvml

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// migDevice is a GPU instance with the MIG devices in it, which are its compute instances.
type migDevice struct {
	handles  []nvml.Device
	instance int // GPU instance id
}

// migDevices lists a GPU's instances by id. An index without one is normal.
func (l *library) migDevices(dev nvml.Device) []migDevice {
	if !l.has("nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId") {
		return nil
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
		if ret != nvml.SUCCESS {
			continue
		}
		at := slices.IndexFunc(devices, func(d migDevice) bool { return d.instance == id })
		if at < 0 {
			at, devices = len(devices), append(devices, migDevice{instance: id})
		}
		devices[at].handles = append(devices[at].handles, handle)
	}
	slices.SortFunc(devices, func(a, b migDevice) int { return cmp.Compare(a.instance, b.instance) })
	return devices
}

// identify reads the identity of an instance of a GPU.
func (l *library) identify(gpu collect.Entity, dev nvml.Device, d migDevice) collect.Entity {
	e := gpu
	e.Kind, e.InstanceID, e.Start, e.Events, e.Values = collect.Instance, d.instance, -1, nil, nil
	for _, handle := range d.handles {
		if uuid, ret := handle.GetUUID(); ret == nvml.SUCCESS {
			e.MIGDevices = append(e.MIGDevices, uuid)
		}
	}
	if len(e.MIGDevices) > 0 {
		e.InstanceUUID = e.MIGDevices[0]
	}
	if name, ret := d.handles[0].GetName(); ret == nvml.SUCCESS {
		e.Profile = profileOf(name)
	}
	if where := l.placement(dev, d.instance, e.InstanceUUID); where.Size > 0 {
		e.Start, e.Size = int(where.Start), int(where.Size)
	}
	if l.has("nvmlDeviceGetAttributes_v2") {
		if a, ret := d.handles[0].GetAttributes(); ret == nvml.SUCCESS {
			e.ComputeSlices = int(a.GpuInstanceSliceCount)
		}
	}
	return e
}

// MIGInstances reads the identities of the GPU instances of every GPU, by its UUID. It opens the library
// and closes it: an open one can keep a GPU from being repartitioned.
func MIGInstances() (map[string][]collect.Entity, error) {
	lib, err := open(libraryName, slog.New(slog.DiscardHandler))
	if errors.Is(err, ErrNoLibrary) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer lib.close()
	devices, err := (&gpus{uuids: map[int]string{}}).list(lib)
	out := map[string][]collect.Entity{}
	for _, device := range devices {
		if device.ret != nvml.SUCCESS {
			continue
		}
		for _, d := range lib.migDevices(device.handle) {
			out[device.uuid] = append(out[device.uuid], lib.identify(collect.Entity{UUID: device.uuid}, device.handle, d))
		}
	}
	return out, err
}

// instances adds the instances of the GPU at an index of the reading.
func (p *pass) instances(dev nvml.Device, at int) {
	for _, d := range p.lib.migDevices(dev) {
		e := p.lib.identify(p.reading.Entities[at], dev, d)
		e.Values = p.values(d.handles[0], place{e.UUID, d.instance}, dev)
		p.reading.Entities = append(p.reading.Entities, e)
	}
}

// profileOf reads the profile at the end of a MIG device's name: "NVIDIA H100
// 80GB HBM3 MIG 3g.40gb". For a compute instance that does not fill its GPU
// instance ("1c.3g.40gb") it returns the GPU instance's profile.
func profileOf(name string) string {
	_, profile, ok := strings.Cut(name, " MIG ")
	if !ok {
		return ""
	}
	if first, rest, dotted := strings.Cut(profile, "."); dotted && strings.HasSuffix(first, "c") {
		return rest
	}
	return profile
}

// placement reads an instance's placement. Its size is 0 if it is unknown: reading it requires
// rights that not every container has. It is read once for each instance, since it never
// changes.
func (l *library) placement(dev nvml.Device, id int, uuid string) (where nvml.GpuInstancePlacement) {
	if where, known := l.places[uuid]; known {
		return where
	}
	if l.has("nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo") {
		if instance, ret := dev.GetGpuInstanceById(id); ret == nvml.SUCCESS {
			if info, ret := instance.GetInfo(); ret == nvml.SUCCESS {
				where = info.Placement
			}
		}
	}
	if uuid != "" {
		if len(l.places) > 1024 { // instances come and go with their UUIDs
			clear(l.places)
		}
		l.places[uuid] = where
	}
	return where
}
