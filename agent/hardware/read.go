package hardware

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Read returns all GPUs. One that cannot be read has an Err; the returned error is about the
// machine as a whole.
func (n *NVML) Read(ctx context.Context) (Machine, error) {
	var m Machine
	err := n.with(ctx, func(lib nvml.Interface) error {
		read, err := readMachine(lib)
		if err == nil && ctx.Err() == nil {
			m = read
		}
		return err
	})
	if err != nil {
		return Machine{}, err
	}
	return m, nil
}

func readMachine(lib nvml.Interface) (Machine, error) {
	driver, ret := lib.SystemGetDriverVersion()
	if err := failure(ret); err != nil {
		return Machine{}, err
	}
	count, ret := lib.DeviceGetCount()
	if err := failure(ret); err != nil {
		return Machine{}, err
	}
	m := Machine{Driver: driver}
	for i := range count {
		c := GPU{Index: i}
		d, ret := lib.DeviceGetHandleByIndex(i)
		if c.Err = failure(ret); c.Err == nil {
			c.Err = c.read(d)
		}
		m.GPUs = append(m.GPUs, c)
	}
	return m, nil
}

func (c *GPU) read(d nvml.Device) error {
	var ret nvml.Return
	if c.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		return failure(ret)
	}
	if c.Product, ret = d.GetName(); ret != nvml.SUCCESS {
		return failure(ret)
	}
	memory, ret := d.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return failure(ret)
	}
	c.MemoryMiB = int(memory.Total >> 20)
	current, pending, ret := d.GetMigMode()
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		return failure(ret)
	}
	c.CanMIG = ret == nvml.SUCCESS
	c.MIG, c.PendingMIG = c.CanMIG && current == nvml.DEVICE_MIG_ENABLE, c.CanMIG && pending == nvml.DEVICE_MIG_ENABLE
	processes, ret := d.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return failure(ret)
	}
	byInstance := map[int][]int{}
	for _, p := range processes {
		c.PIDs = append(c.PIDs, int(p.Pid))
		byInstance[int(p.GpuInstanceId)] = append(byInstance[int(p.GpuInstanceId)], int(p.Pid))
	}
	if !c.MIG {
		return nil
	}
	return c.readLayout(d, byInstance)
}

func (c *GPU) readLayout(d nvml.Device, pids map[int][]int) error {
	profiles, all, err := partsOf(d)
	if err != nil {
		return err
	}
	seen := make([]mig.Seen, len(profiles))
	for i, p := range profiles {
		seen[i] = p.seen
	}
	if c.Spec, err = mig.SpecFromNVML(c.Product, c.MemoryMiB, seen); err != nil {
		return err
	}
	uuids, err := migUUIDs(d)
	if err != nil {
		return err
	}
	for _, i := range all {
		id := int(i.info.Id)
		at := Instance{ID: id, Placement: mig.Placement{Profile: c.Spec.Profiles[i.at].Profile, Start: int(i.info.Placement.Start)}, PIDs: pids[id]}
		if have := uuids[id]; len(have) > 0 {
			at.Whole, at.UUID, at.More = true, have[0], have[1:]
		}
		delete(pids, id)
		c.Instances = append(c.Instances, at)
	}
	// The remaining processes run on the GPU, in an instance that the driver did not name.
	for _, id := range slices.Sorted(maps.Keys(pids)) {
		for i := range c.Instances {
			c.Instances[i].PIDs = append(slices.Clip(c.Instances[i].PIDs), pids[id]...)
		}
	}
	slices.SortFunc(c.Instances, func(a, b Instance) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	return nil
}

// profile is one profile of a GPU.
type profile struct {
	info nvml.GpuInstanceProfileInfo
	seen mig.Seen
}

// mostInstances of a profile: NVML's own count is wrong for some products.
const mostInstances = 16

// profilesOf reads the profiles of a GPU in MIG mode.
func profilesOf(d nvml.Device) ([]profile, error) {
	var out []profile
	for i := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := d.GetGpuInstanceProfileInfoV(i).V2()
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, failure(ret)
		}
		p := profile{
			info: nvml.GpuInstanceProfileInfo{Id: info.Id, SliceCount: info.SliceCount, InstanceCount: max(info.InstanceCount, mostInstances)},
			seen: mig.Seen{Name: text(info.Name[:]), Compute: int(info.SliceCount), Count: int(info.InstanceCount), Media: int(info.DecoderCount)},
		}
		places, ret := d.GetGpuInstancePossiblePlacements(&p.info)
		if ret != nvml.SUCCESS {
			return nil, failure(ret)
		}
		for _, place := range places {
			p.seen.Places = append(p.seen.Places, mig.Span{Start: int(place.Start), Size: int(place.Size)})
		}
		out = append(out, p)
	}
	return out, nil
}

// instance is a GPU instance, and its profile's index among the GPU's.
type instance struct {
	nvml.GpuInstance
	info nvml.GpuInstanceInfo
	at   int
}

// partsOf reads the profiles and the instances of a GPU in MIG mode.
func partsOf(d nvml.Device) (profiles []profile, all []instance, err error) {
	if profiles, err = profilesOf(d); err != nil {
		return nil, nil, err
	}
	for i, p := range profiles {
		gis, ret := d.GetGpuInstances(&p.info)
		if ret != nvml.SUCCESS {
			return nil, nil, failure(ret)
		}
		for _, gi := range gis {
			info, ret := gi.GetInfo()
			if ret != nvml.SUCCESS {
				return nil, nil, failure(ret)
			}
			all = append(all, instance{gi, info, i})
		}
	}
	return profiles, all, nil
}

// migUUIDs returns the MIG devices by GPU instance: one for each compute instance.
func migUUIDs(d nvml.Device) (map[int][]string, error) {
	most, ret := d.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, failure(ret)
	}
	out := map[int][]string{}
	for i := range most {
		m, ret := d.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, failure(ret)
		}
		id, ret := m.GetGpuInstanceId()
		if ret != nvml.SUCCESS {
			return nil, failure(ret)
		}
		uuid, ret := m.GetUUID()
		if ret != nvml.SUCCESS {
			return nil, failure(ret)
		}
		out[id] = append(out[id], uuid)
	}
	return out, nil
}

// text of a C string.
func text(chars []int8) string {
	var b []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
