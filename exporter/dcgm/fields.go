package dcgm

import (
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Fields that the Source reads for itself.
const (
	fieldDriver   = 1  // its version
	fieldName     = 50 // of a GPU the product, of an instance the profile
	fieldIndex    = 52 // NVML's
	fieldUUID     = 54
	fieldMinor    = 55
	fieldPCIBusID = 57
	fieldMIGMode  = 67
	fieldMIGMax   = 69 // compute slices of the whole GPU
)

// fieldSet holds the requested fields.
type fieldSet struct {
	of      map[uint32][]uint16 // by the kind of entity that they are read of; sorted
	asked   []uint16            // what is requested beside fields
	unknown []uint16            // not known to the library
}

// readOf are the kinds of entity that a field is read of, by the level at which DCGM measures it. A
// GPU's field is not read of instances, which would give copies of its value. Fields of network
// adapters are not read.
var readOf = map[godcgm.Field_Entity_Group][]uint32{
	godcgm.FE_NONE:     {kindGPU},
	godcgm.FE_GPU:      {kindGPU},
	godcgm.FE_VGPU:     {kindGPU}, // DCGM answers them for GPUs too
	godcgm.FE_GPU_I:    {kindGPU, kindInstance},
	godcgm.FE_GPU_CI:   {kindGPU, kindInstance},
	godcgm.FE_SWITCH:   {kindSwitch},
	godcgm.FE_LINK:     {kindLink},
	godcgm.FE_CPU:      {kindCPU},
	godcgm.FE_CPU_CORE: {kindCPU, kindCore}, // a CPU has the mean of its cores
}

// newFieldSet sorts fields by the library's own table.
func newFieldSet(fields []uint16) fieldSet {
	godcgm.FieldsInit() // the library forgets its table with every shutdown
	set := fieldSet{of: map[uint32][]uint16{}}
	for _, f := range slices.Compact(slices.Sorted(slices.Values(fields))) {
		if f == collect.AskHealth || f == collect.AskPeers && hasSymbol(symbolPeers) {
			set.asked = append(set.asked, f)
			continue
		}
		meta, err := godcgm.FieldGetByID(godcgm.Short(f))
		if err != nil || readOf[meta.EntityLevel] == nil {
			set.unknown = append(set.unknown, f)
			continue
		}
		for _, kind := range readOf[meta.EntityLevel] {
			set.of[kind] = append(set.of[kind], f)
		}
		if f == collect.FieldXID {
			set.of[kindCompute] = []uint16{f} // where DCGM records it in MIG mode
		}
	}
	return set
}

func (s fieldSet) asks(what uint16) bool { return slices.Contains(s.asked, what) }

func (s fieldSet) wantsXIDs() bool { return slices.Contains(s.of[kindGPU], collect.FieldXID) }
