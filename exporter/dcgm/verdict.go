package dcgm

// #include "shim.h"
import "C"

import (
	"bytes"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// DCGM's blanks: a base value, and fifteen above it for the reasons.
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

// maxAhead is how far a value's time may be ahead of our clock, as on another
// host: one from the far future would never become stale.
const maxAhead = time.Minute

// judge converts DCGM's value, or returns the reason why it is left out.
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
		text, _, _ := bytes.Cut(unsafe.Slice((*byte)(payload), 256), []byte{0})
		out.Text = string(text)
		dropped = judgeText(out.Text)
	default:
		return out, collect.DropNotSupported // a blob is no sample
	}
	switch {
	case dropped != "":
		return out, dropped
	case v.ts <= 0:
		return out, collect.DropBlank // never taken
	case out.Time.After(now.Add(maxAhead)):
		return out, collect.DropImpossible
	case !out.IsText && !collect.Plausible(out.Field, &out.Number):
		return out, collect.DropImpossible
	}
	return out, ""
}

func judgeDouble(n float64) string {
	if offset := n - fp64Blank; offset >= 0 && offset < blankReasons {
		return blankKind(int64(offset))
	}
	if !(math.Abs(n) < fp64Blank) { // NaN is no number either
		return collect.DropImpossible
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
		return collect.DropBlank
	case isBlankText(s):
		return textBlankKind(s)
	case strings.EqualFold(s, "N/A"), strings.EqualFold(s, "[N/A]"), strings.EqualFold(s, "Not Supported"):
		return collect.DropNotSupported
	}
	return ""
}

func judgeStatus(code int) string {
	switch code {
	case 0:
		return ""
	case statusNoData:
		return collect.DropBlank
	case statusNotSupported, statusUnknownField, statusNotWatched, statusNoPermission, statusUnsupported,
		statusNoProfiling:
		return collect.DropNotSupported
	}
	return collect.DropError
}

// blankKind returns a blank's reason by its offset above the base.
func blankKind(offset int64) string {
	if offset == notSupportedOffset || offset == notPermittedOffset {
		return collect.DropNotSupported
	}
	return collect.DropBlank
}

// isBlankText follows DCGM_STR_IS_BLANK.
func isBlankText(s string) bool {
	return strings.HasPrefix(s, "<<<") && strings.Contains(s, ">>>")
}

func textBlankKind(s string) string {
	if s == "<<<NOT_SUPPORTED>>>" || s == "<<<NOT_PERM>>>" {
		return collect.DropNotSupported
	}
	return collect.DropBlank
}
