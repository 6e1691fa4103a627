package dcgm

import (
	"cmp"
	"fmt"
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Entity groups of DCGM that this package reads.
const (
	kindGPU      = uint32(godcgm.FE_GPU)
	kindInstance = uint32(godcgm.FE_GPU_I)
)

// entityKey names an entity as DCGM does.
type entityKey struct {
	kind, id uint32
}

// placed is a MIG instance in the hierarchy: what DCGM tells without a watch.
type placed struct {
	key           entityKey
	gpu           uint32 // DCGM's id of its card
	instanceID    int    // the driver's GPU instance id
	computeSlices int
}

// layout is which entities there are.
type layout struct {
	gpus      []uint32 // sorted; cards that are lost too
	instances []placed // by card, then by instance id
}

// readLayout asks the host engine which entities there are.
func readLayout() (layout, error) {
	ids, err := godcgm.GetEntityGroupEntities(godcgm.FE_GPU)
	if err != nil {
		return layout{}, fmt.Errorf("listing GPUs: %w", err)
	}
	var l layout
	for _, id := range ids {
		l.gpus = append(l.gpus, uint32(id))
	}
	slices.Sort(l.gpus)
	if len(l.gpus) == 0 {
		return l, nil // a host engine without a driver has no hierarchy either
	}
	tree, err := godcgm.GetGPUInstanceHierarchy()
	if err != nil {
		return layout{}, fmt.Errorf("listing MIG instances: %w", err)
	}
	for _, e := range tree.EntityList[:min(tree.Count, uint(len(tree.EntityList)))] {
		if e.Entity.EntityGroupId != godcgm.FE_GPU_I || e.Parent.EntityGroupId != godcgm.FE_GPU {
			continue
		}
		l.instances = append(l.instances, placed{
			key:           entityKey{kindInstance, uint32(e.Entity.EntityId)},
			gpu:           uint32(e.Parent.EntityId),
			instanceID:    int(int32(e.Info.NvmlInstanceId)),
			computeSlices: int(e.Info.NvmlProfileSlices),
		})
	}
	slices.SortFunc(l.instances, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.instanceID, b.instanceID))
	})
	return l, nil
}

func (l layout) equal(other layout) bool {
	return slices.Equal(l.gpus, other.gpus) && slices.Equal(l.instances, other.instances)
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
