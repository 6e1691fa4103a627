package dcgm

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Codes that go-dcgm does not name.
const (
	codeUninitialized = -10
	codeDetached      = -67
)

// codeError is a refusal of DCGM.
type codeError struct {
	doing string
	code  int
}

func (e *codeError) Error() string {
	if e.code == godcgm.DCGM_ST_NVML_NOT_LOADED {
		return e.doing + ": " + ErrNoDriver.Error()
	}
	return fmt.Sprintf("%s: DCGM: %s (%d)", e.doing, C.GoString(C.shim_error(C.int(e.code))), e.code)
}

func (e *codeError) Is(target error) bool {
	return target == ErrNoDriver && e.code == godcgm.DCGM_ST_NVML_NOT_LOADED
}

func callError(doing string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &codeError{doing, int(code)}
}

// leastCode is below all of DCGM's.
const leastCode = -100

// refusal is a codeError of an error of go-dcgm, which has the code as a number or as the
// library's words for it: each code has its own (dcgm_errors.c).
func refusal(doing string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if code, notNumber := strconv.Atoi(text[strings.LastIndex(text, " ")+1:]); notNumber == nil && code < 0 {
		return callError(doing, C.int(code))
	}
	for code := C.int(-1); code > leastCode; code-- {
		if words := C.GoString(C.shim_error(code)); words == text || strings.HasSuffix(text, ": "+words) {
			return callError(doing, code)
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// codeOf is DCGM's code of an error, 0 where it has none.
func codeOf(err error) int {
	var refusal *codeError
	if errors.As(err, &refusal) {
		return refusal.code
	}
	return 0
}

// severs reports whether an error concerns the host engine as a whole. Any
// other error concerns one call only.
func severs(err error) bool {
	return slices.Contains([]int{
		codeUninitialized, godcgm.DCGM_ST_TIMEOUT, godcgm.DCGM_ST_CONNECTION_NOT_VALID, godcgm.DCGM_ST_PAUSED,
		godcgm.DCGM_ST_NVML_NOT_LOADED, godcgm.DCGM_ST_NVML_DRIVER_TIMEOUT, codeDetached,
	}, codeOf(err))
}

// tolerated complains of a part and returns its error only where that severs the connection.
func (r *reader) tolerated(part string, err error) error {
	if severs(err) {
		return err
	}
	r.complain(part, err)
	return nil
}

// complain logs the error of a part once, until the reason changes or the part
// works again.
func (r *reader) complain(part string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := r.complaints[part]
	r.complaints[part] = text
	switch {
	case text == before:
	case text == "":
		r.options.Log.Info("dcgm: part available again", "part", part)
	default:
		r.options.Log.Warn("dcgm: part not available", "part", part, "error", err)
	}
}
