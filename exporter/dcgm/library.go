package dcgm

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

const libraryName = "libdcgm.so.4"

// symbols are the functions of every libdcgm.so.4 that this package reaches, through go-dcgm
// or its own shim. go-dcgm binds each at its first call, and the loader ends the
// process when it is not there.
var symbols = []string{
	"dcgmInit", "dcgmShutdown", "dcgmStartEmbedded", "dcgmStopEmbedded", "dcgmConnect_v2", "dcgmDisconnect",
	"dcgmGetEntityGroupEntities", "dcgmGetGpuInstanceHierarchy", "dcgmGetCpuHierarchy", "dcgmGetGpuStatus", "dcgmHealthSet",
	"dcgmGroupCreate", "dcgmGroupDestroy", "dcgmGroupAddEntity", "dcgmFieldGroupCreate", "dcgmFieldGroupDestroy",
	"dcgmProfGetSupportedMetricGroups", "dcgmGetValuesSince_v2", "dcgmHealthCheck",
	"dcgmWatchFields", "dcgmUnwatchFields", "dcgmUpdateAllFields", "dcgmEntitiesGetLatestValues",
	"DcgmFieldsInit", "DcgmFieldGetById", "errorString",
}

// symbolPeers is a function of DCGM from 4.3 on; before, the peers' status is not supported.
const symbolPeers = "dcgmGetNvLinkP2PStatus"

// loadLibrary loads libdcgm and looks for every symbol that is needed.
func loadLibrary(path string) error {
	if path == "" {
		path = libraryName
	}
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	if msg := C.shim_open(c); msg != nil {
		return fmt.Errorf("%w: %s", ErrNoLibrary, C.GoString(msg))
	}
	if missing := slices.DeleteFunc(slices.Clone(symbols), hasSymbol); len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrLibraryTooOld, strings.Join(missing, ", "))
	}
	if code := godcgm.FieldsInit(); code != 0 {
		return fmt.Errorf("initialising DCGM's field table: code %d", code)
	}
	return nil
}

func hasSymbol(name string) bool {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.shim_has(c) != 0
}
