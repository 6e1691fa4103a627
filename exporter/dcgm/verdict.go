package dcgm

// #include "shim.h"
import "C"

import (
	"bytes"
	"math"
	"strings"
	"time"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Above each of DCGM's blanks stand fifteen more for the reasons.
const (
	blankReasons       = 16
	notSupportedOffset = godcgm.DCGM_FT_INT32_NOT_SUPPORTED - godcgm.DCGM_FT_INT32_BLANK
	notPermittedOffset = godcgm.DCGM_FT_INT32_NOT_PERMISSIONED - godcgm.DCGM_FT_INT32_BLANK
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
	switch payload := unsafe.Pointer(&v.value); uint(v._type) {
	case godcgm.DCGM_FT_DOUBLE:
		out.Number = float64(*(*C.double)(payload))
		dropped = judgeDouble(out.Number)
	case godcgm.DCGM_FT_INT64, godcgm.DCGM_FT_TIMESTAMP:
		n := int64(*(*C.int64_t)(payload))
		out.Number = float64(n)
		dropped = judgeInteger(n)
	case godcgm.DCGM_FT_STRING:
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
	if offset := n - godcgm.DCGM_FT_FP64_BLANK; offset >= 0 && offset < blankReasons {
		return blankKind(int64(offset))
	}
	if !(math.Abs(n) < godcgm.DCGM_FT_FP64_BLANK) { // NaN is no number either
		return collect.DropImpossible
	}
	return ""
}

func judgeInteger(n int64) string {
	// Some fields are 32 bits wide at their source and keep its blanks.
	for _, base := range []int64{godcgm.DCGM_FT_INT32_BLANK, godcgm.DCGM_FT_INT64_BLANK} {
		if offset := n - base; offset >= 0 && offset < blankReasons {
			return blankKind(offset)
		}
	}
	return ""
}

func judgeText(s string) string {
	switch strings.ToUpper(strings.TrimSpace(s)) {
	case "":
		return collect.DropBlank
	case "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>", "N/A", "[N/A]", "NOT SUPPORTED":
		return collect.DropNotSupported
	}
	if isBlankText(s) {
		return collect.DropBlank
	}
	return ""
}

func judgeStatus(code int) string {
	switch code {
	case 0:
		return ""
	case godcgm.DCGM_ST_NO_DATA:
		return collect.DropBlank
	case godcgm.DCGM_ST_NOT_SUPPORTED, godcgm.DCGM_ST_UNKNOWN_FIELD, godcgm.DCGM_ST_NOT_WATCHED, godcgm.DCGM_ST_NO_PERMISSION, godcgm.DCGM_ST_FIELD_UNSUPPORTED_BY_API,
		godcgm.DCGM_ST_PROFILING_NOT_SUPPORTED:
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
