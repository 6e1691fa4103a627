package dcgm

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"log/slog"
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

// leastCode is below all of DCGM's codes.
const leastCode = -100

// refusal returns the codeError of an error of go-dcgm. That error's text ends with the
// code, or with the library's words for it, which differ for each code (dcgm_errors.c).
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

// complaints are the errors of parts, each logged once until the reason changes or the part works again.
type complaints struct {
	log  *slog.Logger
	last map[string]string // as logged, by part
}

// tolerated notes the error of a part and returns it only if that severs the connection.
func (c complaints) tolerated(part string, err error) error {
	if severs(err) {
		return err
	}
	c.note(part, err)
	return nil
}

// note logs the error of a part, or with nil that the part works again.
func (c complaints) note(part string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := c.last[part]
	c.last[part] = text
	switch {
	case text == before:
	case text == "":
		c.log.Info("dcgm: part available again", "part", part)
	default:
		c.log.Warn("dcgm: part not available", "part", part, "error", err)
	}
}
