package hardware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// LibraryName is what the loader looks for.
const LibraryName = "libnvidia-ml.so.1"

// lane has a token while no call is in the driver. A call that hangs keeps it. It is global, since
// go-nvml has its library in globals.
var lane = func() chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}()

// NVML is the driver of this machine. One call is made at a time.
type NVML struct {
	path    string
	timeout time.Duration
}

// New returns the driver behind a library, LibraryName if path is empty. timeout bounds each call.
func New(path string, timeout time.Duration) *NVML {
	return &NVML{path: cmp.Or(path, LibraryName), timeout: timeout}
}

// with runs do with the driver open. It returns ErrHanging when the driver does not answer in time;
// do then continues in the background, alone.
func (n *NVML) with(ctx context.Context, do func(nvml.Interface) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, ErrHanging)
	defer cancel()
	select {
	case <-lane:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { lane <- struct{}{} }()
		done <- n.open(do)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// on runs do with a GPU, which it finds by its UUID.
func (n *NVML) on(ctx context.Context, uuid string, do func(nvml.Device) error) error {
	return n.with(ctx, func(lib nvml.Interface) error {
		d, err := device(lib, uuid)
		if err != nil {
			return err
		}
		return do(d)
	})
}

func (n *NVML) open(do func(nvml.Interface) error) error {
	lib := nvml.New(nvml.WithLibraryPath(n.path))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
			return ErrNoLibrary
		}
		return fmt.Errorf("initialising NVML: %w", failure(ret))
	}
	defer func() { _ = lib.Shutdown() }() // the work is done either way
	return do(lib)
}

// failure is the error of a return code, without calling into the library.
func failure(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_GPU_IS_LOST:
		return ErrLost
	case nvml.ERROR_IN_USE:
		return ErrInUse
	case nvml.ERROR_INSUFFICIENT_RESOURCES:
		return ErrNoFreeSlices
	case nvml.ERROR_RESET_REQUIRED:
		return ErrNeedsReset
	}
	words := map[nvml.Return]string{
		nvml.ERROR_UNINITIALIZED: "uninitialized", nvml.ERROR_INVALID_ARGUMENT: "invalid argument",
		nvml.ERROR_NOT_SUPPORTED: "not supported", nvml.ERROR_NO_PERMISSION: "no permission: the agent must run as root with CAP_SYS_ADMIN",
		nvml.ERROR_NOT_FOUND: "not found", nvml.ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "library and driver are of different versions", nvml.ERROR_UNKNOWN: "unknown error",
		nvml.ERROR_FUNCTION_NOT_FOUND: "the driver is too old: it has no such function", nvml.ERROR_INVALID_STATE: "invalid state",
	}
	if text, ok := words[ret]; ok {
		return fmt.Errorf("NVML: %s", text)
	}
	return fmt.Errorf("NVML: code %d", int(ret))
}

// device finds a GPU by its UUID.
func device(lib nvml.Interface, uuid string) (nvml.Device, error) {
	n, ret := lib.DeviceGetCount()
	if err := failure(ret); err != nil {
		return nil, err
	}
	var lost error
	for i := range n {
		d, ret := lib.DeviceGetHandleByIndex(i)
		if ret == nvml.SUCCESS {
			var have string
			if have, ret = d.GetUUID(); ret == nvml.SUCCESS && have == uuid {
				return d, nil
			}
		}
		if ret == nvml.ERROR_GPU_IS_LOST {
			lost = ErrLost // the driver does not report which GPU it is
		}
	}
	if lost != nil {
		return nil, fmt.Errorf("%s: %w, or it is gone", uuid, lost)
	}
	return nil, fmt.Errorf("%s: %w", uuid, ErrNoSuchGPU)
}

// Errors that callers distinguish.
var (
	// ErrLost: the GPU has fallen off the bus.
	ErrLost = errors.New("the GPU has fallen off the bus")
	// ErrInUse: a process uses what was to be changed.
	ErrInUse = errors.New("in use by a process")
	// ErrNoFreeSlices: the GPU has no free slices for the instance.
	ErrNoFreeSlices = errors.New("no free slices on the GPU")
	// ErrNeedsReset: the change is pending until a reset that the driver cannot make.
	ErrNeedsReset = errors.New("the change needs a reset of the GPU or a reboot of the machine")
	// ErrHanging: a call into the driver has timed out. No other call is made until it returns.
	ErrHanging = errors.New("the driver does not answer")
	// ErrNoSuchGPU: no GPU has this UUID.
	ErrNoSuchGPU = errors.New("no such GPU")
	// ErrNoLibrary: libnvidia-ml.so.1 cannot be loaded, or this program was built without cgo.
	ErrNoLibrary = errors.New("libnvidia-ml.so.1 cannot be loaded")
)

// Machine is the state of a node's GPUs.
type Machine struct {
	Driver string // its version
	GPUs   []GPU  // by the driver's index
}

// GPU is one GPU.
type GPU struct {
	Index     int
	UUID      string
	Product   string // the driver's name
	MemoryMiB int
	// CanMIG is true for a product with MIG.
	CanMIG bool
	// MIG is the mode; PendingMIG the one after the next reset.
	MIG, PendingMIG bool
	// Spec is the GPU's MIG geometry as the driver reports it. Outside MIG mode the driver reports
	// no profiles.
	Spec      mig.Spec
	Instances []Instance // by start
	PIDs      []int      // of processes on the GPU and in its instances
	// Err is why the GPU could not be read; all other fields are then unknown, except the UUID
	// where the GPU still returned it.
	Err error
}

// Instance is one GPU instance.
type Instance struct {
	ID        int
	Placement mig.Placement
	// Whole is false for an instance without compute instance, the result of an interrupted
	// creation. It cannot be used.
	Whole bool
	UUID  string // of its MIG device, if it is whole
	// More are the UUIDs of further MIG devices in it, where it has several compute instances.
	More []string
	// PIDs of processes in it, and of processes on the GPU whose instance is unknown.
	PIDs []int
}

// Layout of the GPU's whole instances.
func (c GPU) Layout() mig.Layout {
	var ps []mig.Placement
	for _, i := range c.Instances {
		if i.Whole {
			ps = append(ps, i.Placement)
		}
	}
	return mig.NewLayout(ps...)
}
