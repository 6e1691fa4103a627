package dcgm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
	"github.com/NVIDIA/go-nvml/pkg/dl"
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

// library is libdcgm as New loaded it. It is never closed: a host engine that was started in this process may
// still have threads in it.
var library *dl.DynamicLibrary

// loadLibrary loads libdcgm and looks up every required symbol. It loads it globally and lazily, like
// go-dcgm, whose own dlopen then finds it by its soname.
func loadLibrary(path string) error {
	library = dl.New(cmp.Or(path, libraryName), dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	if missing := slices.DeleteFunc(slices.Clone(symbols), hasSymbol); len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrLibraryTooOld, strings.Join(missing, ", "))
	}
	if code := godcgm.FieldsInit(); code != 0 {
		return fmt.Errorf("initialising DCGM's field table: code %d", code)
	}
	return nil
}

func hasSymbol(name string) bool { return library.Lookup(name) == nil }
