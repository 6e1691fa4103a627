package dcgm

import (
	"fmt"
	"slices"
	"testing"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

// TestFieldsOfDCGM: each field of DCGM's own table has its name in the counters' table, and is read
// from the entities that DCGM has it of.
func TestFieldsOfDCGM(t *testing.T) {
	newMachine(t, 1)
	s := open(t, Options{}) // the table is the library's
	watchFields(t, s)
	read(t, s)
	fields := fakedcgm.FieldTable()
	if len(fields) != 619 {
		t.Fatalf("%d fields in the table", len(fields))
	}
	for _, f := range fields {
		internal := f.ID == 210 || f.ID == 211 || f.ID == 220 || f.ID == 221 // not in dcgm_fields.h
		if name := counters.FieldName(f.ID); name == fmt.Sprintf("DCGM_FI_%d", f.ID) && !internal {
			t.Errorf("field %d has no name", f.ID)
		}
		set := newFieldSet([]uint16{f.ID})
		switch level := godcgm.Field_Entity_Group(f.Level); level {
		case godcgm.FE_NONE, godcgm.FE_GPU, godcgm.FE_VGPU:
			if !slices.Contains(set.wanted, f.ID) || slices.Contains(set.instance, f.ID) {
				t.Errorf("field %d of level %d is not read of GPUs alone", f.ID, f.Level)
			}
		case godcgm.FE_GPU_I, godcgm.FE_GPU_CI:
			if !slices.Contains(set.wanted, f.ID) || !slices.Contains(set.instance, f.ID) {
				t.Errorf("field %d of level %d is not read of GPUs and instances", f.ID, f.Level)
			}
		case godcgm.FE_SWITCH, godcgm.FE_LINK, godcgm.FE_CPU, godcgm.FE_CPU_CORE:
			if !slices.Contains(set.device[uint32(level)], f.ID) {
				t.Errorf("field %d of level %d is not read there", f.ID, f.Level)
			}
		default: // network adapters, which the exporter has not
			if !slices.Contains(set.unknown, f.ID) {
				t.Errorf("field %d of level %d is read somewhere", f.ID, f.Level)
			}
		}
	}
}

// TestFieldsOfNVML: what is read from NVML in DCGM's place is a number in DCGM too, and DCGM has it
// of GPUs or instances.
func TestFieldsOfNVML(t *testing.T) {
	fields := fakedcgm.FieldTable()
	for _, id := range nvml.Fields() {
		i := slices.IndexFunc(fields, func(f fakedcgm.FieldMeta) bool { return f.ID == id })
		if i < 0 {
			t.Errorf("DCGM has no field %d", id)
			continue
		}
		text := id == 1 // the driver's version
		if f := fields[i]; (f.Type == 's') != text || f.Type == 'b' || f.Level > uint(godcgm.FE_GPU_CI) {
			t.Errorf("field %d is %c of level %d in DCGM", id, f.Type, f.Level)
		}
	}
}
