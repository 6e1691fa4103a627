package dcgm

// #include "shim.h"
import "C"

import (
	"strings"
	"time"
	"unsafe"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Reasons for which a value is left out, as keys of Reading.Dropped.
const (
	dropBlank        = "blank"
	dropNotSupported = "not_supported"
	dropImpossible   = "impossible"
	dropError        = "error"
)

// DCGM's blanks: a base value and fifteen above it that say why.
const (
	int32Blank   = 0x7ffffff0
	int64Blank   = 0x7ffffffffffffff0
	fp64Blank    = 140737488355328.0
	blankReasons = 16
	// notSupportedOffset and notPermittedOffset are above the base value.
	notSupportedOffset = 2
	notPermittedOffset = 3
)

// Types of a value.
const (
	typeDouble    = 'd'
	typeInt64     = 'i'
	typeString    = 's'
	typeTimestamp = 't'
)

// Codes of one value's status.
const (
	statusNotSupported = -6
	statusUnknownField = -13
	statusNoData       = -14
	statusNotWatched   = -16
	statusNoPermission = -17
	statusUnsupported  = -32
	statusNoProfiling  = -36
)

// judge turns DCGM's value into ours, or says why it is left out.
func judge(v *C.shim_value) (out collect.Value, dropped string) {
	out = collect.Value{Field: uint16(v.field), Time: time.UnixMicro(int64(v.ts))}
	if dropped := judgeStatus(int(v.status)); dropped != "" {
		return out, dropped
	}
	switch payload := unsafe.Pointer(&v.value); v._type {
	case typeDouble:
		out.Number = float64(*(*C.double)(payload))
		if !(out.Number < fp64Blank) { // NaN is no number either
			return out, blankKind(out.Number - fp64Blank)
		}
	case typeInt64, typeTimestamp:
		n := int64(*(*C.int64_t)(payload))
		if n >= int64Blank {
			return out, blankKind(float64(n - int64Blank))
		}
		// Some fields are 32 bits wide at their source and keep its blanks.
		if n >= int32Blank && n < int32Blank+blankReasons {
			return out, blankKind(float64(n - int32Blank))
		}
		out.Number = float64(n)
	case typeString:
		out.IsText = true
		out.Text = C.GoStringN((*C.char)(payload), C.int(textLength(unsafe.Slice((*byte)(payload), 256))))
		if isBlankText(out.Text) {
			return out, textBlankKind(out.Text)
		}
	default:
		return out, dropNotSupported // a blob is no sample
	}
	if v.ts <= 0 {
		return out, dropBlank // never taken
	}
	if !out.IsText && !plausible(out.Field, &out.Number) {
		return out, dropImpossible
	}
	return out, ""
}

func judgeStatus(code int) string {
	switch code {
	case 0:
		return ""
	case statusNoData:
		return dropBlank
	case statusNotSupported, statusUnknownField, statusNotWatched, statusNoPermission, statusUnsupported,
		statusNoProfiling:
		return dropNotSupported
	}
	return dropError
}

// blankKind tells blanks apart by their offset above the base.
func blankKind(offset float64) string {
	if offset == notSupportedOffset || offset == notPermittedOffset {
		return dropNotSupported
	}
	return dropBlank
}

// isBlankText follows DCGM_STR_IS_BLANK.
func isBlankText(s string) bool {
	return strings.HasPrefix(s, "<<<") && strings.Contains(s, ">>>")
}

func textBlankKind(s string) string {
	if s == "<<<NOT_SUPPORTED>>>" || s == "<<<NOT_PERM>>>" {
		return dropNotSupported
	}
	return dropBlank
}

func textLength(b []byte) int {
	for i, c := range b {
		if c == 0 {
			return i
		}
	}
	return len(b)
}

// roundingSlack is how far above one a ratio may lie: DCGM divides two counters
// that are not read at the same instant.
const roundingSlack = 1.05

// plausible reports whether a field can have the value; a ratio that is above
// one by rounding only is set to one. What it keeps out has been seen in the
// field: GPU_UTIL 808334905, which is text read as a number, and ratios of
// thousands after a driver reload.
func plausible(field uint16, number *float64) bool {
	switch {
	case field == 203 || field == 204 || field == 206 || field == 207: // utilization in percent
		return *number >= 0 && *number <= 100
	case isRatio(field):
		if *number > 1 && *number <= roundingSlack {
			*number = 1
		}
		return *number >= 0 && *number <= 1
	case field == 155 || field == 157: // watts, average and of the instant
		return *number >= 0 && *number < 20000
	case field == 140 || field >= 150 && field <= 153: // degrees, and margins in degrees
		return *number > -200 && *number < 500
	}
	return *number >= 0
}

// isRatio covers the profiling fields that are shares of time; the others of
// that range are bytes per second.
func isRatio(field uint16) bool {
	return field >= 1001 && field <= 1008 || field >= 1013 && field <= 1034 || field == 254
}
