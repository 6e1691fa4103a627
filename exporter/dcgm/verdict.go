package dcgm

// #include "shim.h"
import "C"

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Each of DCGM's blank values is followed by fifteen more that say why a value
// is blank.
const (
	blankReasons       = 16
	notSupportedOffset = godcgm.DCGM_FT_INT32_NOT_SUPPORTED - godcgm.DCGM_FT_INT32_BLANK
	notPermittedOffset = godcgm.DCGM_FT_INT32_NOT_PERMISSIONED - godcgm.DCGM_FT_INT32_BLANK
)

// maxAhead is how far a value's time may be ahead of our clock, as on another
// host: one from the far future would never become stale.
const maxAhead = time.Minute

// judge converts DCGM's value, or returns the reason why it is left out.
func judge(v *C.shim_value) (out collect.Value, dropped string) {
	out = collect.Value{Field: uint16(v.field), Time: time.UnixMicro(int64(v.ts))}
	if dropped := judgeStatus(int(v.status)); dropped != "" {
		return out, dropped
	}
	switch payload := unsafe.Pointer(&v.value); uint(v._type) {
	case godcgm.DCGM_FT_DOUBLE:
		out.Number = float64(*(*C.double)(payload))
		if dropped = blank(out.Number, godcgm.DCGM_FT_FP64_BLANK); dropped == "" && !(math.Abs(out.Number) < godcgm.DCGM_FT_FP64_BLANK) {
			dropped = collect.DropImpossible // NaN is no number either
		}
	case godcgm.DCGM_FT_INT64, godcgm.DCGM_FT_TIMESTAMP:
		n := int64(*(*C.int64_t)(payload))
		out.Number = float64(n)
		// Some fields are 32 bits wide at their source and keep its blanks.
		dropped = cmp.Or(blank(n, godcgm.DCGM_FT_INT64_BLANK), blank(n, godcgm.DCGM_FT_INT32_BLANK))
	case godcgm.DCGM_FT_STRING:
		text, _, _ := bytes.Cut(unsafe.Slice((*byte)(payload), 256), []byte{0})
		out.IsText, out.Text = true, string(text)
		dropped = blankText(out.Text)
	default:
		return out, collect.DropNotSupported // a blob is no sample
	}
	switch {
	case dropped != "":
		return out, dropped
	case v.ts <= 0:
		return out, collect.DropBlank // never taken
	case !out.IsText && !collect.Plausible(out.Field, &out.Number):
		return out, collect.DropImpossible
	}
	return out, ""
}

// blank returns why a number is no value, by how far it is above DCGM's blank of its type; ""
// if it is a value.
func blank[N int64 | float64](n, base N) string {
	switch offset := n - base; {
	case !(offset >= 0 && offset < blankReasons):
		return ""
	case offset == N(notSupportedOffset), offset == N(notPermittedOffset):
		return collect.DropNotSupported
	}
	return collect.DropBlank
}

func blankText(s string) string {
	switch s = strings.ToUpper(strings.TrimSpace(s)); s {
	case "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>", "N/A", "[N/A]", "NOT SUPPORTED":
		return collect.DropNotSupported
	}
	if s == "" || strings.HasPrefix(s, "<<<") && strings.Contains(s, ">>>") { // DCGM_STR_IS_BLANK
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
