package nvml

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const libraryName = "libnvidia-ml.so.1"

// Errors that callers distinguish.
var (
	// ErrNoLibrary: libnvidia-ml.so.1 does not exist or cannot be loaded.
	ErrNoLibrary = errors.New("libnvidia-ml.so.1 cannot be loaded")
	// ErrNoDriver: the kernel module is not loaded.
	ErrNoDriver = errors.New("the NVIDIA driver is not loaded")
)

// needed are the required symbols.
var needed = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlSystemGetDriverVersion",
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
	places map[string]nvml.GpuInstancePlacement // by the UUID of the first MIG device
}

// open initialises NVML. The driver's own message names a missing driver or a
// version mismatch.
func open(path string, log *slog.Logger) (*library, error) {
	l := &library{Interface: nvml.New(nvml.WithLibraryPath(path)), log: log, places: map[string]nvml.GpuInstancePlacement{}}
	if ret := l.Init(); ret != nvml.SUCCESS {
		var err error = ret
		switch ret {
		case nvml.ERROR_LIBRARY_NOT_FOUND:
			return nil, ErrNoLibrary
		case nvml.ERROR_DRIVER_NOT_LOADED:
			err = ErrNoDriver
		}
		return nil, fmt.Errorf("initialising NVML: %w", err)
	}
	if missing := slices.IndexFunc(needed, func(name string) bool { return !l.has(name) }); missing >= 0 {
		l.close()
		return nil, fmt.Errorf("libnvidia-ml.so.1 has no %s", needed[missing])
	}
	return l, nil
}

func (l *library) close() {
	if ret := l.Shutdown(); ret != nvml.SUCCESS {
		l.log.Debug("closing NVML", "error", ret)
	}
}

// has reports whether functions can be called.
func (l *library) has(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return l.Extensions().LookupSymbol(name) != nil })
}

// gpus are the driver's GPUs. Some may be released.
type gpus struct {
	uuids  map[int]string // of those seen, by index
	asleep []string       // UUIDs of the released
	// acquired: a released GPU's handle was opened to learn its UUID, so the library must be
	// closed.
	acquired bool
}

// device is a GPU with its handle, or why it has none. Its UUID is empty if it was never read.
type device struct {
	index  int
	uuid   string
	handle nvml.Device
	ret    nvml.Return
}

// list returns the GPUs that are not released. A lost GPU has the UUID of the GPU last seen at
// its index, unless that one is at another index now.
func (g *gpus) list(lib *library) ([]device, error) {
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("counting GPUs: %w", ret)
	}
	g.acquired = false
	var devices []device
	for index := range count {
		if slices.Contains(g.asleep, g.uuids[index]) {
			continue
		}
		d := device{index: index}
		if d.handle, d.ret = lib.DeviceGetHandleByIndex(index); d.ret == nvml.SUCCESS {
			d.uuid, d.ret = d.handle.GetUUID()
		}
		if d.ret == nvml.SUCCESS {
			maps.DeleteFunc(g.uuids, func(_ int, uuid string) bool { return uuid == d.uuid })
			g.uuids[index] = d.uuid
			g.acquired = g.acquired || slices.Contains(g.asleep, d.uuid)
		}
		devices = append(devices, d)
	}
	for i := range devices {
		devices[i].uuid = g.uuids[devices[i].index]
	}
	return slices.DeleteFunc(devices, func(d device) bool { return slices.Contains(g.asleep, d.uuid) }), nil
}

// allAsleep reports whether every GPU seen is released. NVML is not opened then: it keeps
// the device file of every GPU open, even of one without a handle (driver 580).
func (g *gpus) allAsleep() bool {
	for _, uuid := range g.uuids {
		if !slices.Contains(g.asleep, uuid) {
			return false
		}
	}
	return len(g.uuids) > 0
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

// noInstance is the GPU instance id of an event on the whole GPU.
const noInstance = ^uint32(0)

// maxEvents bounds how many events one Read takes; the driver queues the rest.
const maxEvents = 256

// events receives XIDs through NVML's event set.
type events struct {
	lib        *library
	set        nvml.EventSet   // nil: none
	registered map[string]bool // by GPU UUID: whether its events are subscribed to
}

func (e *events) close() {
	if e.set != nil {
		_ = e.set.Free()
	}
	e.set = nil
	clear(e.registered)
}

// subscribe registers a GPU once and reports whether its XIDs are received. What is refused is
// asked again: a GPU that is being reset refuses too.
func (e *events) subscribe(uuid string, dev nvml.Device) bool {
	if e.set == nil && e.lib.has("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents") {
		if set, ret := e.lib.EventSetCreate(); ret == nvml.SUCCESS {
			e.set = set
		}
	}
	if e.set != nil && !e.registered[uuid] {
		e.registered[uuid] = dev.RegisterEvents(nvml.EventTypeXidCriticalError, e.set) == nvml.SUCCESS
	}
	return e.registered[uuid]
}

// take hands over the events since the last call. A set that fails, for example because it
// has a lost GPU, is made again with the GPUs that answer.
func (e *events) take(got func(dev nvml.Device, e collect.Event)) {
	for range maxEvents {
		if e.set == nil {
			return
		}
		event, ret := e.set.Wait(0)
		if ret == nvml.ERROR_TIMEOUT {
			return // there is none
		}
		if ret != nvml.SUCCESS {
			e.close()
			return
		}
		if event.EventType == nvml.EventTypeXidCriticalError {
			xid := collect.Event{Time: time.Now(), Code: int64(event.EventData)}
			if event.GpuInstanceId != noInstance {
				xid.Instance = fmt.Sprint(event.GpuInstanceId)
			}
			got(event.Device, xid)
		}
	}
}
