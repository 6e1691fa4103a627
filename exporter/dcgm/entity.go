package dcgm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
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

// entityKey names an entity as DCGM does.
type entityKey struct {
	kind, id uint32
}

// placed is a GPU instance in DCGM's hierarchy, which needs no watch.
type placed struct {
	key           entityKey
	gpu           uint32 // DCGM's id of its GPU
	instanceID    int    // the driver's GPU instance id
	computeSlices int
}

// owner is a GPU, by DCGM's id, and a GPU instance on it by the driver's; empty for the GPU.
type owner struct {
	gpu      uint32
	instance string
}

// layout is which entities there are.
type layout struct {
	gpus      []uint32            // sorted; GPUs that are lost too
	instances []placed            // by GPU, then by instance id
	owners    map[entityKey]owner // of what has XIDs: GPUs, GPU instances and compute instances
	devices   []device            // by kind
}

// hierarchyEvery is how often DCGM's MIG hierarchy is read where nothing tells of a change.
const hierarchyEvery = time.Minute

// hierarchy is DCGM's MIG hierarchy as last read. A host engine on TCP takes 90 ms to answer,
// and the lists of instances cost nothing.
type hierarchy struct {
	read      time.Time   // zero: to be read
	listed    []entityKey // what there was
	instances []placed
	owners    map[entityKey]owner
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
	if err := r.readHierarchy(len(gpus)); err != nil {
		return layout{}, err
	}
	l.instances, l.owners = r.hierarchy.instances, map[entityKey]owner{}
	maps.Copy(l.owners, r.hierarchy.owners)
	for _, gpu := range l.gpus {
		l.owners[entityKey{kindGPU, gpu}] = owner{gpu: gpu}
	}
	l.devices, err = r.readDevices()
	if err != nil {
		return layout{}, err
	}
	return r.withoutQuiesced(l), nil
}

// readHierarchy reads DCGM's MIG hierarchy where it may have changed. Only what severs the
// connection is an error.
func (r *reader) readHierarchy(gpus int) error {
	h, now := &r.hierarchy, r.options.now()
	var listed []entityKey
	for _, kind := range []uint32{kindInstance, kindCompute} {
		ids, err := readEntities(kind)
		if severs(err) {
			return err
		}
		for _, id := range ids {
			listed = append(listed, entityKey{kind, id})
		}
	}
	age := now.Sub(h.read)
	// Without GPUs it is always read: the answer distinguishes a machine without GPUs from a
	// host engine without a driver.
	if gpus > 0 && !h.read.IsZero() && slices.Equal(listed, h.listed) && age >= 0 && age < hierarchyEvery {
		return nil
	}
	instances, owners, err := readInstances()
	if severs(err) {
		return err
	}
	if gpus > 0 {
		r.complain("MIG instances", err)
	}
	*h = hierarchy{listed: listed, instances: instances, owners: owners}
	if err == nil {
		h.read = now
	}
	return nil
}

func readEntities(kind uint32) ([]uint32, error) {
	group := godcgm.Field_Entity_Group(kind)
	ids, err := godcgm.GetEntityGroupEntities(group)
	out := make([]uint32, len(ids))
	for i, id := range ids {
		out[i] = uint32(id)
	}
	return out, refusal("listing "+group.String()+" entities", err)
}

// readInstances gives the GPU instances, and the owner of each of them and of their compute
// instances.
func readInstances() (instances []placed, owners map[entityKey]owner, err error) {
	all, err := godcgm.GetGPUInstanceHierarchy()
	if err != nil {
		return nil, nil, refusal("listing MIG instances", err)
	}
	key := func(e godcgm.GroupEntityPair) entityKey {
		return entityKey{uint32(e.EntityGroupId), uint32(e.EntityId)}
	}
	owners = map[entityKey]owner{}
	for _, e := range all.EntityList[:all.Count] {
		if parent := key(e.Parent); key(e.Entity).kind == kindInstance && parent.kind == kindGPU {
			id := int(int32(e.Info.NvmlInstanceId))
			owners[key(e.Entity)] = owner{parent.id, strconv.Itoa(id)}
			instances = append(instances, placed{key: key(e.Entity), gpu: parent.id, instanceID: id, computeSlices: int(e.Info.NvmlProfileSlices)})
		}
	}
	for _, e := range all.EntityList[:all.Count] {
		if of, known := owners[key(e.Parent)]; known && key(e.Entity).kind == kindCompute {
			owners[key(e.Entity)] = of
		}
	}
	slices.SortFunc(instances, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.instanceID, b.instanceID))
	})
	return instances, owners, nil
}

// withoutQuiesced leaves out the released GPUs.
func (r *reader) withoutQuiesced(l layout) layout {
	if len(r.quiesced) == 0 {
		return l
	}
	quiesced := func(gpu uint32) bool {
		uuid := r.uuidOf(gpu)
		return uuid != "" && slices.Contains(r.quiesced, uuid)
	}
	l.gpus = slices.DeleteFunc(slices.Clone(l.gpus), quiesced)
	l.instances = slices.DeleteFunc(slices.Clone(l.instances), func(p placed) bool { return quiesced(p.gpu) })
	l.owners = maps.Clone(l.owners)
	maps.DeleteFunc(l.owners, func(_ entityKey, of owner) bool { return quiesced(of.gpu) })
	l.devices = slices.DeleteFunc(slices.Clone(l.devices), func(d device) bool { return d.ofGPU() && quiesced(d.parent) })
	return l
}

func (l layout) equal(other layout) bool {
	return slices.Equal(l.gpus, other.gpus) && slices.Equal(l.instances, other.instances) &&
		maps.Equal(l.owners, other.owners) && slices.Equal(l.devices, other.devices)
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

// keys are all entities that are read.
func (l layout) keys() []entityKey {
	keys := append(l.gpuKeys(), l.instanceKeys()...)
	for _, d := range l.devices {
		keys = append(keys, d.key)
	}
	return keys
}
