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
	fieldUUID     = 54
	fieldIndex    = 52 // NVML's
	fieldMinor    = 55
	fieldPCIBusID = 57
	fieldMIGMode  = 67
	fieldMIGMax   = 69 // compute slices of the whole GPU
	fieldClocks   = 112
	fieldXID      = 230
	firstProfiled = 1001
	lastProfiled  = 1099
)

// identityFields identify an entity. They are watched slowly, whatever the
// caller's interval.
var (
	gpuIdentity      = []uint16{fieldIndex, fieldMinor, fieldMIGMode, fieldMIGMax}
	instanceIdentity = []uint16{fieldName, fieldUUID}
)

// fieldSet holds the requested fields, split by where DCGM measures them.
type fieldSet struct {
	wanted   []uint16            // sorted, known to the library, of GPUs and instances
	instance []uint16            // those of wanted that are measured on instances
	device   map[uint32][]uint16 // of switches, links, CPUs and cores, by entity group; sorted
	asked    []uint16            // what is requested beside fields
	unknown  []uint16            // wanted, but not known to the library
}

// newFieldSet sorts fields by the library's own metadata. A field that DCGM
// measures on GPUs only would give an instance a copy of its GPU's value, so
// it is not read there.
func newFieldSet(fields []uint16) fieldSet {
	// The library forgets its field table with every shutdown.
	godcgm.FieldsInit()
	set := fieldSet{device: map[uint32][]uint16{}}
	for _, f := range slices.Compact(slices.Sorted(slices.Values(fields))) {
		if symbol, asked := symbolOf[f]; asked && hasSymbol(symbol) {
			set.asked = append(set.asked, f)
		} else if meta, err := godcgm.FieldGetByID(godcgm.Short(f)); !asked && err == nil {
			set.add(f, meta.EntityLevel)
		} else {
			set.unknown = append(set.unknown, f)
		}
	}
	return set
}

// symbolOf is the function that answers what is requested beside fields.
var symbolOf = map[uint16]string{
	collect.AskClockEvents: symbolEvents, collect.AskHealth: symbolHealth, collect.AskPeers: symbolPeers,
}

func (s *fieldSet) add(f uint16, level godcgm.Field_Entity_Group) {
	switch level {
	case godcgm.FE_GPU_I, godcgm.FE_GPU_CI:
		s.wanted, s.instance = append(s.wanted, f), append(s.instance, f)
	case godcgm.FE_GPU, godcgm.FE_NONE, godcgm.FE_VGPU: // DCGM answers those of vGPUs for GPUs too
		s.wanted = append(s.wanted, f)
	case godcgm.FE_SWITCH, godcgm.FE_LINK, godcgm.FE_CPU:
		s.device[uint32(level)] = append(s.device[uint32(level)], f)
	case godcgm.FE_CPU_CORE: // a CPU has the mean of its cores
		s.device[kindCore] = append(s.device[kindCore], f)
		s.device[kindCPU] = append(s.device[kindCPU], f)
	default:
		s.unknown = append(s.unknown, f) // of network adapters
	}
}

func (s fieldSet) wants(field uint16) bool {
	_, found := slices.BinarySearch(s.wanted, field)
	return found
}

// counts reports whether a value left out is counted: not one that the caller
// did not request, nor a blank of a switch, link or CPU, where most fields are
// blank, nor the last XID of what had none.
func (s fieldSet) counts(field uint16, reason string) bool {
	if field == fieldXID && reason == collect.DropBlank {
		return false
	}
	if s.wants(field) {
		return true
	}
	ours := slices.Contains(gpuIdentity, field) || slices.Contains(instanceIdentity, field)
	return !ours && (reason == collect.DropImpossible || reason == collect.DropError)
}

func (s fieldSet) asks(what uint16) bool { return slices.Contains(s.asked, what) }

// split parts profiling fields, which only some GPUs have, from the rest.
func split(fields []uint16) (plain, profiled []uint16) {
	for _, f := range fields {
		if f >= firstProfiled && f <= lastProfiled {
			profiled = append(profiled, f)
		} else {
			plain = append(plain, f)
		}
	}
	return plain, profiled
}

func intersect(a, b []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(a), func(f uint16) bool { return !slices.Contains(b, f) })
}

func without(a, b []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(a), func(f uint16) bool { return slices.Contains(b, f) })
}
