package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Destroy destroys a GPU instance with its compute instances. An instance that does not exist is no
// error; ErrInUse is one that a process uses.
func (n *NVML) Destroy(ctx context.Context, uuid string, id int) error {
	return n.on(ctx, uuid, func(d nvml.Device) error {
		_, all, err := partsOf(d)
		// The driver's lookup by ID succeeds for some that are gone.
		at := slices.IndexFunc(all, func(i instance) bool { return int(i.info.Id) == id })
		if err != nil || at < 0 {
			return err
		}
		gi := all[at].GpuInstance
		for i := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
			info, ret := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
			if ret != nvml.SUCCESS {
				continue // a profile that this instance does not have
			}
			info.InstanceCount = max(info.InstanceCount, mostInstances)
			cis, ret := gi.GetComputeInstances(&info)
			if ret != nvml.SUCCESS {
				return failure(ret)
			}
			for _, ci := range cis {
				if ret := ci.Destroy(); ret != nvml.SUCCESS {
					return failure(ret)
				}
			}
		}
		return failure(gi.Destroy())
	})
}

// Create creates an instance at exactly this placement, with one compute instance of its full size.
// An instance that exists already gets its missing compute instance. ErrNoFreeSlices means that the
// placement is not free.
func (n *NVML) Create(ctx context.Context, uuid string, at mig.Placement) error {
	return n.on(ctx, uuid, func(d nvml.Device) error {
		profiles, all, err := partsOf(d)
		if err != nil {
			return err
		}
		p, err := profileLike(profiles, at.Profile)
		if err != nil {
			return err
		}
		for _, i := range all {
			if profiles[i.at].info.Id == p.info.Id && int(i.info.Placement.Start) == at.Start {
				return fill(i, int(p.info.SliceCount))
			}
		}
		gi, ret := d.CreateGpuInstanceWithPlacement(&p.info, &nvml.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Profile.Memory)})
		if ret != nvml.SUCCESS {
			return failure(ret)
		}
		return fill(gi, int(p.info.SliceCount))
	})
}

// profileLike finds the profile with these slices and attributes.
func profileLike(profiles []profile, want mig.Profile) (profile, error) {
	for _, p := range profiles {
		name, err := mig.ParseName(strings.TrimPrefix(p.seen.Name, "MIG "))
		if err != nil || len(p.seen.Places) == 0 {
			continue
		}
		if (mig.Profile{Compute: p.seen.Compute, Memory: p.seen.Places[0].Size, Attrs: name.Attrs}) == want {
			return p, nil
		}
	}
	return profile{}, fmt.Errorf("the GPU has no profile %s", want)
}

// fill gives an instance a compute instance of all its slices, unless it has one.
func fill(gi nvml.GpuInstance, size int) error {
	for i := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if ret != nvml.SUCCESS || int(info.SliceCount) != size {
			continue
		}
		count := info
		count.InstanceCount = max(info.InstanceCount, mostInstances)
		have, ret := gi.GetComputeInstances(&count)
		if ret != nvml.SUCCESS {
			return failure(ret)
		}
		if len(have) > 0 {
			return nil
		}
		_, ret = gi.CreateComputeInstance(&info)
		return failure(ret)
	}
	return fmt.Errorf("the instance has no compute profile of %d slices", size)
}
