package collect

import (
	"math"
	"slices"
	"time"
)

// DCGM fields our own families read.
const (
	fieldDriverVersion   = 1
	fieldClockEvents     = 112 // bits: why clocks are reduced
	fieldPowerWatts      = 155
	fieldEnergyMilli     = 156 // mJ
	fieldGPUUtil         = 203 // percent; blank in MIG mode
	FieldXID             = 230 // the last one; none before the first
	fieldFBTotal         = 250 // MiB
	fieldFBFree          = 251
	fieldFBUsed          = 252
	fieldFBReserved      = 253
	fieldRowRemapFailure = 395 // 1 when remapping failed
	FieldEngineActive    = 1001
	fieldRecoveryAction  = 1523 // what the driver requests for the GPU; 0 for nothing
)

// Fields returns the DCGM fields our own families are made of. A source
// is asked to watch these and the counters file's.
func Fields() []uint16 {
	return []uint16{
		fieldClockEvents, fieldPowerWatts, fieldEnergyMilli, fieldGPUUtil, FieldXID, fieldFBTotal, fieldFBFree,
		fieldFBUsed, fieldFBReserved, fieldRowRemapFailure, FieldEngineActive,
		fieldRecoveryAction,
	}
}

// Value returns the entity's value of a field and whether it has one.
func (e *Entity) Value(field uint16) (Value, bool) {
	i, ok := slices.BinarySearchFunc(e.Values, field, func(v Value, f uint16) int { return int(v.Field) - int(f) })
	if !ok {
		return Value{}, false
	}
	return e.Values[i], true
}

// number returns a field's number; unknown where it has none.
func (e *Entity) number(field uint16) Value {
	v, _ := e.Value(field)
	if v.IsText {
		return Value{}
	}
	return v
}

// Reasons for which a value is left out, as keys of Reading.Dropped.
const (
	DropBlank        = "blank"
	DropNotSupported = "not_supported"
	DropImpossible   = "impossible"
	DropError        = "error"
)

// roundingSlack is how far above one a ratio may be: DCGM divides two counters
// that are not read at the same instant.
const roundingSlack = 1.05

// bounds are what a field can be, in its own unit. Values outside occur in
// practice: GPU_UTIL 808334905, which is text read as a number, ratios of
// thousands after a driver reload, and counters below zero.
type bounds struct{ least, most float64 }

var (
	percent = bounds{0, 100}
	watts   = bounds{0, 20_000}
	degrees = bounds{-200, 500} // and margins in degrees
	mhz     = bounds{0, 100_000}
	mib     = bounds{0, 1 << 24} // 16 TiB
	slots   = bounds{0, 64}      // of PCIe lanes and generations
	signed  = bounds{math.Inf(-1), math.Inf(1)}
)

func boundsOf(field uint16) bounds {
	switch {
	case field == 203 || field == 204 || field == 206 || field == 207:
		return percent
	case field == 155 || field == 157 || field >= 160 && field <= 164 || field == 1130 || field == 1131:
		return watts
	case field == 140 || field >= 150 && field <= 153 || field == 158 || field == 159 || field >= 858 && field <= 860 || field >= 1110 && field <= 1112:
		return degrees
	case field == 100 || field == 101 || field == 102 || field >= 110 && field <= 111 || field >= 113 && field <= 115:
		return mhz
	case field >= 250 && field <= 253:
		return mib
	case field >= 235 && field <= 238:
		return slots
	case field >= 70 && field <= 73 || field >= 86 && field <= 89:
		return signed // affinities: masks whose 64th bit is the sign
	case field == 1503:
		return signed // the IMEX daemon's state, below zero where there is none
	}
	return bounds{0, math.Inf(1)} // counters, sizes, states
}

// Plausible reports whether a field can have the value; a ratio that is above
// one by rounding only is set to one.
func Plausible(field uint16, number *float64) bool {
	if isRatio(field) {
		if *number > 1 && *number <= roundingSlack {
			*number = 1
		}
		return *number >= 0 && *number <= 1
	}
	b := boundsOf(field)
	return *number >= b.least && *number <= b.most
}

// leastEvery is DCGM's own minimum interval of a field. Whatever is requested, DCGM reads the
// inforom's checksum and validity every 30 s (DcgmCacheManager::AddEntityFieldWatch of 4.5.2).
func leastEvery(field uint16) time.Duration {
	if field == 83 || field == 84 {
		return 30 * time.Second
	}
	return 0
}

// Profiled reports whether a field is a profiling field; the last two are of single NVLinks.
func Profiled(field uint16) bool {
	return field > 1000 && field < 1100 || field == 1532 || field == 1533
}

// isRatio covers the profiling fields that are shares of time; the others of
// that range are bytes per second.
func isRatio(field uint16) bool {
	return field >= 1001 && field <= 1008 || field >= 1013 && field <= 1034 || field == 254
}
