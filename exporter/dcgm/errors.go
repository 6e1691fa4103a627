package dcgm

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
)

// Codes of DCGM that mean something to this package.
const (
	codeUninitialized = -10
	codeTimeout       = -11
	codeNoData        = -14
	codeNotWatched    = -16
	codeConnection    = -21
	codePaused        = -54
	codeNoNVML        = -56
	codeDriverTimeout = -57
	codeDetached      = -67
)

// codeError is a refusal of DCGM.
type codeError struct {
	doing string
	code  int
}

func (e *codeError) Error() string {
	if e.code == codeNoNVML {
		return e.doing + ": " + ErrNoDriver.Error()
	}
	return fmt.Sprintf("%s: DCGM: %s (%d)", e.doing, C.GoString(C.shim_error(C.int(e.code))), e.code)
}

func (e *codeError) Is(target error) bool { return target == ErrNoDriver && e.code == codeNoNVML }

func callError(doing string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &codeError{doing, int(code)}
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
	switch codeOf(err) {
	case codeUninitialized, codeTimeout, codeConnection, codePaused, codeNoNVML, codeDriverTimeout, codeDetached:
		return true
	}
	return false
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
