package dcgm

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/nvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestFieldsOfDCGM: each field of DCGM's own table has its name in the counters' table, and is read from the entities
// for which DCGM has it.
func TestFieldsOfDCGM(t *testing.T) {
	fields := fieldTable(t)
	if len(fields) != 643 {
		t.Fatalf("%d fields in the table", len(fields))
	}
	for id, f := range fields {
		internal := id == 210 || id == 211 || id == 220 || id == 221 // not in dcgm_fields.h
		if name := counters.FieldName(id); name == fmt.Sprintf("DCGM_FI_%d", id) && !internal {
			t.Errorf("field %d has no name", id)
		}
		set := newFieldSet([]uint16{id})
		from := map[godcgm.Field_Entity_Group][]uint32{
			godcgm.FE_NONE: {kindGPU}, godcgm.FE_GPU: {kindGPU}, godcgm.FE_VGPU: {kindGPU},
			godcgm.FE_GPU_I: {kindGPU, kindInstance}, godcgm.FE_GPU_CI: {kindGPU, kindInstance},
			godcgm.FE_SWITCH: {kindSwitch}, godcgm.FE_LINK: {kindLink}, godcgm.FE_CPU: {kindCPU}, godcgm.FE_CPU_CORE: {kindCPU, kindCore},
		}[f.EntityLevel] // not of network adapters, which the exporter does not read
		if id == collect.FieldXID {
			from = append(from, kindCompute)
		}
		there := slices.Equal(slices.Sorted(maps.Keys(set.of)), from) && (from == nil) == (len(set.unknown) == 1)
		if !there {
			t.Errorf("field %d of level %d is read elsewhere: %+v", id, f.EntityLevel, set)
		}
	}
}

// fieldTable is the library's, by id.
func fieldTable(t *testing.T) map[uint16]godcgm.FieldMeta {
	t.Helper()
	s, err := New(Options{}) // which loads it
	require.NoError(t, err)
	defer s.Close()
	table := map[uint16]godcgm.FieldMeta{}
	for id := range uint16(2000) {
		if meta, err := godcgm.FieldGetByID(godcgm.Short(id)); err == nil {
			table[id] = meta
		}
	}
	return table
}

// TestFieldsOfNVML: a field that is read from NVML in DCGM's place is a number in DCGM too, and DCGM has it for GPUs or
// instances.
func TestFieldsOfNVML(t *testing.T) {
	fields := fieldTable(t)
	for _, id := range nvml.Fields() {
		text := id == 1 // the driver's version
		if f, has := fields[id]; !has || (f.FieldType == 's') != text || f.FieldType == 'b' || f.EntityLevel > godcgm.FE_GPU_CI {
			t.Errorf("field %d is %c of level %d in DCGM", id, f.FieldType, f.EntityLevel)
		}
	}
}
