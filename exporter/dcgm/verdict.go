package dcgm

// #include "shim.h"
import "C"

import (
	"math"
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

// maxAhead is how far a value's time may lie ahead of our clock, as on another
// host: one from the far future would never grow old.
const maxAhead = time.Minute

// judge turns DCGM's value into ours, or says why it is left out.
func judge(v *C.shim_value, now time.Time) (out collect.Value, dropped string) {
	out = collect.Value{Field: uint16(v.field), Time: time.UnixMicro(int64(v.ts))}
	if dropped := judgeStatus(int(v.status)); dropped != "" {
		return out, dropped
	}
	switch payload := unsafe.Pointer(&v.value); v._type {
	case typeDouble:
		out.Number = float64(*(*C.double)(payload))
		dropped = judgeDouble(out.Number)
	case typeInt64, typeTimestamp:
		n := int64(*(*C.int64_t)(payload))
		out.Number = float64(n)
		dropped = judgeInteger(n)
	case typeString:
		out.IsText = true
		out.Text = C.GoStringN((*C.char)(payload), C.int(textLength(unsafe.Slice((*byte)(payload), 256))))
		dropped = judgeText(out.Text)
	default:
		return out, dropNotSupported // a blob is no sample
	}
	switch {
	case dropped != "":
		return out, dropped
	case v.ts <= 0:
		return out, dropBlank // never taken
	case out.Time.After(now.Add(maxAhead)):
		return out, dropImpossible
	case !out.IsText && !plausible(out.Field, &out.Number):
		return out, dropImpossible
	}
	return out, ""
}

func judgeDouble(n float64) string {
	if offset := n - fp64Blank; offset >= 0 && offset < blankReasons {
		return blankKind(int64(offset))
	}
	if !(math.Abs(n) < fp64Blank) { // NaN is no number either
		return dropImpossible
	}
	return ""
}

func judgeInteger(n int64) string {
	// Some fields are 32 bits wide at their source and keep its blanks.
	for _, base := range []int64{int32Blank, int64Blank} {
		if offset := n - base; offset >= 0 && offset < blankReasons {
			return blankKind(offset)
		}
	}
	return ""
}

func judgeText(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return dropBlank
	case isBlankText(s):
		return textBlankKind(s)
	case strings.EqualFold(s, "N/A"), strings.EqualFold(s, "[N/A]"), strings.EqualFold(s, "Not Supported"):
		return dropNotSupported
	}
	return ""
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
func blankKind(offset int64) string {
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

// bounds are what a field can be, in its own unit. What lies outside has been
// seen in the field: GPU_UTIL 808334905, which is text read as a number, ratios
// of thousands after a driver reload, and counters below zero.
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

// plausible reports whether a field can have the value; a ratio that is above
// one by rounding only is set to one.
func plausible(field uint16, number *float64) bool {
	if isRatio(field) {
		if *number > 1 && *number <= roundingSlack {
			*number = 1
		}
		return *number >= 0 && *number <= 1
	}
	b := boundsOf(field)
	return *number >= b.least && *number <= b.most
}

// isRatio covers the profiling fields that are shares of time; the others of
// that range are bytes per second.
func isRatio(field uint16) bool {
	return field >= 1001 && field <= 1008 || field >= 1013 && field <= 1034 || field == 254
}
