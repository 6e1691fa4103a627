package collect

import "slices"

// DCGM fields our own families read.
const (
	fieldDriverVersion   = 1
	fieldClockEvents     = 112 // bits: why clocks are reduced
	fieldPowerWatts      = 155
	fieldEnergyMilli     = 156 // mJ
	fieldGPUUtil         = 203 // percent; blank in MIG mode
	fieldXID             = 230 // the last one, 0 for none
	fieldFBTotal         = 250 // MiB
	fieldFBFree          = 251
	fieldFBUsed          = 252
	fieldFBReserved      = 253
	fieldRowRemapFailure = 395 // 1 when remapping failed
	fieldEngineActive    = 1001
)

// Fields returns the DCGM fields our own families are made of, sorted. A source
// is asked to watch these and the counters file's.
func Fields() []uint16 {
	return []uint16{
		fieldClockEvents, fieldPowerWatts, fieldEnergyMilli, fieldGPUUtil, fieldXID, fieldFBTotal, fieldFBFree,
		fieldFBUsed, fieldFBReserved, fieldRowRemapFailure, fieldEngineActive,
	}
}

// Value returns the entity's value of a field and whether it has one.
func (e *Entity) Value(field uint16) (Value, bool) { return find(e.Values, field) }

// Value returns the device's value of a field and whether it has one.
func (d *Device) Value(field uint16) (Value, bool) { return find(d.Values, field) }

func find(values []Value, field uint16) (Value, bool) {
	i, ok := slices.BinarySearchFunc(values, field, func(v Value, f uint16) int { return int(v.Field) - int(f) })
	if !ok {
		return Value{}, false
	}
	return values[i], true
}
