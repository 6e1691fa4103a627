package hardware

import (
	"errors"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

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
