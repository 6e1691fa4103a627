package nvml

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const libraryName = "libnvidia-ml.so.1"

// Errors that callers distinguish.
var (
	// ErrNoLibrary: libnvidia-ml.so.1 does not exist or cannot be loaded.
	ErrNoLibrary = errors.New("libnvidia-ml.so.1 cannot be loaded")
	// ErrHanging: a call into NVML has not come back in time.
	ErrHanging = errors.New("NVML does not answer")
	// ErrClosed: the Source was closed.
	ErrClosed = errors.New("the NVML source is closed")
)

// needed are the required symbols.
var needed = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName",
}

// probe loads the library and closes it.
func probe(path string) error {
	lib := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := lib.Open(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	return lib.Close()
}

// library is NVML initialised. It is for one goroutine.
type library struct {
	nvml.Interface
	log    *slog.Logger
	symbol map[string]bool
}

// open initialises NVML. The driver's own message names a missing driver or a
// version mismatch.
func open(path string, log *slog.Logger) (*library, error) {
	l := &library{Interface: nvml.New(nvml.WithLibraryPath(path)), log: log, symbol: map[string]bool{}}
	if ret := l.Init(); ret != nvml.SUCCESS {
		if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
			return nil, ErrNoLibrary
		}
		return nil, fmt.Errorf("initialising NVML: %s", word(ret))
	}
	for _, name := range needed {
		if !l.has(name) {
			l.close()
			return nil, fmt.Errorf("libnvidia-ml.so.1 has no %s", name)
		}
	}
	return l, nil
}

func (l *library) close() {
	if ret := l.Shutdown(); ret != nvml.SUCCESS {
		l.log.Debug("closing NVML", "error", word(ret))
	}
}

// has reports whether a function can be called.
func (l *library) has(name string) bool {
	has, known := l.symbol[name]
	if !known {
		has = l.Extensions().LookupSymbol(name) == nil
		l.symbol[name] = has
	}
	return has
}

// word names a return code without calling into the library.
func word(ret nvml.Return) string {
	words := map[nvml.Return]string{
		nvml.SUCCESS: "success", nvml.ERROR_UNINITIALIZED: "uninitialized", nvml.ERROR_INVALID_ARGUMENT: "invalid argument",
		nvml.ERROR_NOT_SUPPORTED: "not supported", nvml.ERROR_NO_PERMISSION: "no permission", nvml.ERROR_NOT_FOUND: "not found",
		nvml.ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded", nvml.ERROR_TIMEOUT: "timeout",
		nvml.ERROR_LIBRARY_NOT_FOUND: "library not found", nvml.ERROR_FUNCTION_NOT_FOUND: "function not found",
		nvml.ERROR_GPU_IS_LOST: "GPU is lost", nvml.ERROR_RESET_REQUIRED: "GPU needs a reset",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "library and driver are of different versions",
		nvml.ERROR_NO_DATA:                 "no data", nvml.ERROR_UNKNOWN: "unknown error",
	}
	if text, ok := words[ret]; ok {
		return text
	}
	return fmt.Sprintf("NVML code %d", int(ret))
}

// dropOf returns why a call gave no value.
func dropOf(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return collect.DropNotSupported
	case nvml.ERROR_NO_DATA, nvml.ERROR_NOT_READY:
		return collect.DropBlank
	}
	return collect.DropError
}
