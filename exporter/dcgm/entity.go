package dcgm

// #include "shim.h"
import "C"

import (
	"cmp"
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Entity groups of DCGM that this package reads.
const (
	kindGPU      = uint32(godcgm.FE_GPU)
	kindSwitch   = uint32(godcgm.FE_SWITCH)
	kindInstance = uint32(godcgm.FE_GPU_I)
	kindLink     = uint32(godcgm.FE_LINK)
	kindCPU      = uint32(godcgm.FE_CPU)
	kindCore     = uint32(godcgm.FE_CPU_CORE)
)

// entityKey names an entity as DCGM does.
type entityKey struct {
	kind, id uint32
}

// placed is a MIG instance in DCGM's hierarchy, which needs no watch.
type placed struct {
	key           entityKey
	gpu           uint32 // DCGM's id of its GPU
	instanceID    int    // the driver's GPU instance id
	computeSlices int
}

// layout is which entities there are.
type layout struct {
	gpus      []uint32 // sorted; GPUs that are lost too
	instances []placed // by GPU, then by instance id
	devices   []device // by kind
}

// readLayout lists the host engine's entities. Only the list of GPUs is
// required.
func (r *reader) readLayout() (layout, error) {
	gpus, err := readEntities(kindGPU)
	if err != nil {
		return layout{}, err
	}
	l := layout{gpus: gpus}
	slices.Sort(l.gpus)
	// Asked without GPUs too: the answer distinguishes a machine without GPUs
	// from a host engine without a driver.
	l.instances, err = readInstances()
	if severs(err) {
		return layout{}, err
	}
	if len(l.gpus) > 0 {
		r.complain("MIG instances", err)
	}
	l.devices, err = r.readDevices()
	if err != nil {
		return layout{}, err
	}
	return r.withoutQuiesced(l), nil
}

func readEntities(kind uint32) ([]uint32, error) {
	var ids [C.SHIM_MAX_ENTITIES]C.uint32_t
	var n C.int
	if code := C.shim_entities(C.uintptr_t(hostHandle), C.uint(kind), &ids[0], &n); code != 0 {
		return nil, callError("listing "+godcgm.Field_Entity_Group(kind).String()+" entities", code)
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(ids[i])
	}
	return out, nil
}

func readInstances() ([]placed, error) {
	var list [C.SHIM_MAX_INSTANCES]C.shim_instance
	var n C.int
	if code := C.shim_instances(C.uintptr_t(hostHandle), &list[0], &n); code != 0 {
		return nil, callError("listing MIG instances", code)
	}
	out := make([]placed, n)
	for i, e := range list[:n] {
		out[i] = placed{
			key: entityKey{kindInstance, uint32(e.entity)}, gpu: uint32(e.gpu),
			instanceID: int(int32(e.instance)), computeSlices: int(e.slices),
		}
	}
	slices.SortFunc(out, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.instanceID, b.instanceID))
	})
	return out, nil
}

// withoutQuiesced leaves out the released GPUs.
func (r *reader) withoutQuiesced(l layout) layout {
	if len(r.quiesced) == 0 {
		return l
	}
	quiesced := func(gpu uint32) bool {
		known := r.devs[gpu]
		return known != nil && slices.Contains(r.quiesced, known.uuid)
	}
	l.gpus = slices.DeleteFunc(slices.Clone(l.gpus), quiesced)
	l.instances = slices.DeleteFunc(slices.Clone(l.instances), func(p placed) bool { return quiesced(p.gpu) })
	l.devices = slices.DeleteFunc(slices.Clone(l.devices), func(d device) bool { return d.ofGPU() && quiesced(d.parent) })
	return l
}

func (l layout) equal(other layout) bool {
	return slices.Equal(l.gpus, other.gpus) && slices.Equal(l.instances, other.instances) &&
		slices.Equal(l.devices, other.devices)
}

func (l layout) gpuKeys() []entityKey {
	keys := make([]entityKey, len(l.gpus))
	for i, id := range l.gpus {
		keys[i] = entityKey{kindGPU, id}
	}
	return keys
}

func (l layout) instanceKeys() []entityKey {
	keys := make([]entityKey, len(l.instances))
	for i, p := range l.instances {
		keys[i] = p.key
	}
	return keys
}
