package dcgm

import (
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Fields that the Source reads for itself.
const (
	fieldName     = 50 // of a card the product, of an instance the profile
	fieldUUID     = 54
	fieldMinor    = 55
	fieldMIGMode  = 67
	fieldMIGMax   = 69 // compute slices of the whole card
	fieldXID      = 230
	firstProfiled = 1001
	lastProfiled  = 1099
)

// identityFields tell who an entity is. They are watched slowly, whatever the
// caller's interval is.
var (
	gpuIdentity      = []uint16{fieldMinor, fieldMIGMode, fieldMIGMax}
	instanceIdentity = []uint16{fieldName, fieldUUID}
)

// fieldSet is what a caller wants, split by where DCGM measures it.
type fieldSet struct {
	wanted   []uint16 // sorted, known to the library
	gpu      []uint16 // wanted and the card's identity, sorted
	instance []uint16 // those measured on instances, and the instance's identity
	unknown  []uint16 // wanted, but not known to the library or not a card's
}

// newFieldSet sorts fields by the library's own metadata. A field that DCGM
// measures on cards only would give an instance a copy of its card's value, so
// it is not read there.
func newFieldSet(fields []uint16) fieldSet {
	// The library forgets its field table with every shutdown.
	godcgm.FieldsInit()
	fields = slices.Compact(slices.Sorted(slices.Values(fields)))
	var set fieldSet
	for _, f := range fields {
		meta, err := godcgm.FieldGetByID(godcgm.Short(f))
		switch {
		case err != nil:
			set.unknown = append(set.unknown, f)
			continue
		case meta.EntityLevel == godcgm.FE_GPU_I || meta.EntityLevel == godcgm.FE_GPU_CI:
			set.instance = append(set.instance, f)
		case meta.EntityLevel != godcgm.FE_GPU && meta.EntityLevel != godcgm.FE_NONE:
			set.unknown = append(set.unknown, f) // of switches, links and CPUs
			continue
		}
		set.wanted = append(set.wanted, f)
	}
	set.gpu = union(set.wanted, gpuIdentity)
	set.instance = union(set.instance, instanceIdentity)
	return set
}

func (s fieldSet) wants(field uint16) bool {
	_, found := slices.BinarySearch(s.wanted, field)
	return found
}

// split parts profiling fields, which only some cards have, from the rest.
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

func union(a, b []uint16) []uint16 {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

func intersect(a, b []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(a), func(f uint16) bool { return !slices.Contains(b, f) })
}
