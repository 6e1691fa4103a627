package dcgm

// #include "shim.h"
import "C"

import (
	"cmp"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Entity groups of DCGM that this package reads.
const (
	kindGPU      = uint32(godcgm.FE_GPU)
	kindSwitch   = uint32(godcgm.FE_SWITCH)
	kindInstance = uint32(godcgm.FE_GPU_I)
	kindCompute  = uint32(godcgm.FE_GPU_CI)
	kindLink     = uint32(godcgm.FE_LINK)
	kindCPU      = uint32(godcgm.FE_CPU)
	kindCore     = uint32(godcgm.FE_CPU_CORE)
)

// entityKey names an entity as DCGM does, in its shape.
type entityKey struct {
	kind, id uint32
}

// entity is something that DCGM lists.
type entity struct {
	entityKey
	// parent is the GPU of an instance and of a compute instance, the GPU or switch of a link and the
	// CPU of a core; empty for the others.
	parent entityKey
	// number is the driver's id of a GPU instance (for its compute instances too), the index of a
	// link, and DCGM's id of any other entity.
	number int
	slices int // of a GPU instance: its compute slices
}

// root is what the entity is a part of, or the entity itself.
func (e entity) root() entityKey {
	if e.parent != (entityKey{}) {
		return e.parent
	}
	return e.entityKey
}

// deviceKinds are the kinds of devices by their own kind and that of what they are a part of.
var deviceKinds = map[[2]uint32]collect.EntityKind{
	{kindSwitch}: collect.Switch, {kindLink, kindSwitch}: collect.SwitchLink, {kindLink, kindGPU}: collect.GPULink,
	{kindCPU}: collect.CPU, {kindCore, kindCPU}: collect.Core,
}

// hierarchyEvery is how often DCGM's MIG hierarchy is read without a sign of a change.
const hierarchyEvery = time.Minute

// hierarchy is DCGM's MIG hierarchy as last read. A host engine on TCP takes 40 to 90 ms to answer,
// but only 1 ms for a list of instances.
type hierarchy struct {
	read      time.Time // zero: to be read
	listed    []entity  // the instances of that time, as DCGM lists them
	instances []entity  // GPU instances and compute instances
}

// layout is a host engine's entities, in readLayout's order.
type layout []entity

// keys are the entities of a kind.
func (l layout) keys(kind uint32) (keys []entityKey) {
	for _, e := range l {
		if e.kind == kind {
			keys = append(keys, e.entityKey)
		}
	}
	return keys
}

// rectangles puts the entities with the same fields together, for few calls. Entities without fields
// are left out; fields are sorted.
func (l layout) rectangles(of map[entityKey][]uint16) (out []rectangle) {
	for _, e := range l {
		fields := slices.Sorted(slices.Values(of[e.entityKey]))
		if len(fields) == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(r rectangle) bool { return slices.Equal(r.fields, fields) })
		if i < 0 {
			i, out = len(out), append(out, rectangle{fields: fields})
		}
		out[i].entities = append(out[i].entities, e.entityKey)
	}
	return out
}

// readLayout lists the host engine's entities without those of released GPUs. GPUs come by id, lost
// ones too, each followed by its GPU instances by the driver's id and by its compute instances. Then
// come the switches, links, CPUs and cores, if any of their fields are requested. Only the list of
// GPUs is required.
func (r *reader) readLayout() (layout, error) {
	gpus, err := list(kindGPU)
	if err != nil {
		return nil, err
	}
	instances, err := r.readInstances(len(gpus) > 0)
	if err != nil {
		return nil, err
	}
	all := layout(slices.Clone(gpus))
	for _, i := range instances {
		if slices.ContainsFunc(gpus, func(gpu entity) bool { return gpu.entityKey == i.parent }) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b entity) int {
		return cmp.Or(cmp.Compare(a.root().id, b.root().id), cmp.Compare(a.kind, b.kind), cmp.Compare(a.number, b.number), cmp.Compare(a.id, b.id))
	})
	for _, kind := range []uint32{kindSwitch, kindLink, kindCPU, kindCore} {
		if len(r.fields.of[kind]) == 0 {
			continue
		}
		some, err := list(kind)
		if isAbsent(err) {
			err = nil
		}
		if err = r.complaints.tolerated("list of "+kindName(kind), err); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return slices.DeleteFunc(all, r.isReleased), nil
}

// isReleased reports whether an entity is a released GPU or a part of one.
func (r *reader) isReleased(e entity) bool {
	uuid := r.known.uuidOf(e)
	return uuid != "" && slices.Contains(r.quiesced, uuid)
}

func kindName(kind uint32) string { return godcgm.Field_Entity_Group(kind).String() }

// list returns the entities of a kind; of links, those that are up. Instances come without
// their GPU.
func list(kind uint32) ([]entity, error) {
	switch kind {
	case kindLink:
		return listLinks()
	case kindCore:
		return listCores()
	}
	ids, err := godcgm.GetEntityGroupEntities(godcgm.Field_Entity_Group(kind))
	out := make([]entity, len(ids))
	for i, id := range ids {
		out[i] = entity{entityKey: entityKey{kind, uint32(id)}, number: int(id)}
	}
	return out, refusal("listing "+kindName(kind)+" entities", err)
}

// listLinks returns the links that are up. A link's id is a dcgm_link_t: 8 bits for the kind of the
// entity that it belongs to, 16 for its index, and 8 for that entity's id.
func listLinks() ([]entity, error) {
	links := make([]C.uint32_t, C.SHIM_MAX_LINKS)
	var n C.int
	code := C.shim_links(C.uintptr_t(hostHandle), &links[0], &n)
	out := make([]entity, n)
	for i, link := range links[:n] {
		id := uint32(link)
		out[i] = entity{entityKey{kindLink, id}, entityKey{id & 0xff, id >> 24}, int(id >> 8 & 0xffff), 0}
	}
	return out, callError("listing NVLinks", code)
}

func listCores() (out []entity, err error) {
	all, err := godcgm.GetCPUHierarchy()
	if err != nil {
		return nil, refusal("listing CPU cores", err)
	}
	for _, cpu := range all.CPUs[:all.NumCPUs] {
		for id := range uint32(64 * len(cpu.OwnedCores)) {
			if cpu.OwnedCores[id/64]>>(id%64)&1 != 0 {
				out = append(out, entity{entityKey{kindCore, id}, entityKey{kindCPU, uint32(cpu.CPUID)}, int(id), 0})
			}
		}
	}
	return out, nil
}

// readInstances returns the GPU instances and compute instances. It reads DCGM's hierarchy if that
// may have changed. It fails only if the connection is severed.
func (r *reader) readInstances(gpus bool) ([]entity, error) {
	var listed []entity
	for _, kind := range []uint32{kindInstance, kindCompute} {
		some, err := list(kind)
		if severs(err) {
			return nil, err
		}
		listed = append(listed, some...)
	}
	h := &r.hierarchy
	// Without GPUs it is always read: the answer distinguishes a machine without GPUs from a
	// host engine without a driver.
	if gpus && slices.Equal(listed, h.listed) && !r.options.due(h.read, hierarchyEvery) {
		return h.instances, nil
	}
	instances, err := readHierarchy()
	if severs(err) {
		return nil, err
	}
	if gpus {
		r.complaints.note("MIG instances", err)
	}
	if err == nil {
		*h = hierarchy{read: r.options.now(), listed: listed, instances: instances}
	}
	return h.instances, nil // after an error those of before
}

// readHierarchy gives each GPU instance, and each compute instance with the driver's id of its GPU
// instance.
func readHierarchy() (out []entity, err error) {
	all, err := godcgm.GetGPUInstanceHierarchy()
	if err != nil {
		return nil, refusal("listing MIG instances", err)
	}
	key := func(e godcgm.GroupEntityPair) entityKey {
		return entityKey{uint32(e.EntityGroupId), uint32(e.EntityId)}
	}
	for _, e := range all.EntityList[:all.Count] {
		if i := key(e.Entity); i.kind == kindInstance && key(e.Parent).kind == kindGPU {
			out = append(out, entity{i, key(e.Parent), int(int32(e.Info.NvmlInstanceId)), int(e.Info.NvmlProfileSlices)})
		}
	}
	for _, i := range out {
		for _, e := range all.EntityList[:all.Count] {
			if c := key(e.Entity); c.kind == kindCompute && key(e.Parent) == i.entityKey {
				out = append(out, entity{entityKey: c, parent: i.parent, number: i.number})
			}
		}
	}
	return out, nil
}

// isAbsent reports whether an error means that the machine has no such device. On machines
// without Grace CPUs, DCGM answers that a module is not loaded.
func isAbsent(err error) bool {
	return slices.Contains([]int{godcgm.DCGM_ST_NOT_SUPPORTED, godcgm.DCGM_ST_NO_DATA, C.SHIM_NO_SYMBOL, godcgm.DCGM_ST_MODULE_NOT_LOADED}, codeOf(err))
}
