package fakedcgm

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// EnvState is the environment variable with the path of the state file.
const EnvState = "FAKEDCGM_STATE"

// EnvLog is the environment variable with the path of the host engine's log, to which it
// appends a line "unwatched KIND ID FIELD" for each value that is read and not watched, and
// "unsupported KIND ID FIELD" for each with the status -6, as DCGM logs at its default level,
// and "hierarchy" for each reading of the MIG hierarchy,
// which DCGM takes 90 ms for. Without it there is no log.
const EnvLog = "FAKEDCGM_LOG"

// State is the machine that the fake simulates. The fake reads the file again
// whenever it has changed.
type State struct {
	DriverVersion string
	GPUs          []GPU
	Switches      []Switch
	Links         []Link
	CPUs          []CPU
	// Incidents are what the health system finds.
	Incidents []Incident
	// Peers are pairs of GPUs whose peer-to-peer status is not 0.
	Peers []Peer

	// HangFor makes each call that goes to the host engine sleep that long
	// before it answers. A shorter HangFor written meanwhile ends the sleep.
	HangFor time.Duration
	// Dead makes the host engine be gone: a new connection is refused, an
	// existing one stays invalid even after Dead is false again.
	Dead bool
	// NoNVML is a host engine that has not found the driver's library: it has no
	// GPUs, and refuses watches with -56.
	NoNVML bool
	// Fail makes a call fail: the function's name → the status it gives.
	Fail map[string]int
	// Links36 is DCGM 4.6, which knows 36 links of a GPU. Before there were 18.
	Links36 bool
}

// GPU is one GPU. Its DCGM GPU id is its Index.
type GPU struct {
	Index, Minor int
	UUID         string // "GPU-…"
	Product      string // as the driver names it: "NVIDIA H100 80GB HBM3"
	PCIBusID     string // "00000000:07:00.0"
	MemoryMiB    int
	MIG          bool // in MIG mode
	// Lost is a GPU that fell off the bus: it is still listed, with the
	// status "lost", and reads blank from then on, as DCGM's does.
	Lost bool
	// Detached is a GPU that the driver no longer has: DCGM lists it and knows its name, and
	// its values are blank.
	Detached bool
	// Fields holds DCGM field id → value in DCGM's own unit. A field that is
	// absent reads as DCGM's blank; NaN reads as "not supported". What follows
	// from the rest of the GPU (name, UUID, MIG mode, total memory, last XID)
	// need not be set. A GPU whose field 1001 is NaN cannot be profiled.
	Fields Fields
	// Odd answers of fields, instead of a number; see Odd.
	Odd Odd
	// Frozen makes watches of the GPU and its instances take no new sample.
	Frozen bool
	// Profiling lists the fields the GPU can profile; nil means 1001 … 1012.
	Profiling []uint16
	Instances []Instance
	XIDs      []XID
}

// Fields are DCGM field id → value.
type Fields = map[uint16]float64

// Odd are answers of fields that are no numbers: DCGM's four blanks "blank",
// "not_found", "unsupported" and "not_permitted", the same with "int32_" before
// them for fields that are 32 bits wide at their source, "nan", "inf",
// "status:-18" for a status without a value, and "text:…".
type Odd map[uint16]string

// Instance is one MIG GPU instance.
type Instance struct {
	ID       int // GPU instance id on its GPU
	EntityID int // DCGM's entity id, unique on the machine
	// UUIDs are of further compute instances, which share it evenly with that of UUID.
	UUIDs []string
	// XIDs that DCGM attributes to the instance or, where they say so, to its first compute
	// instance.
	XIDs          []XID
	Profile       string // "3g.40gb"
	ComputeSlices int
	Start, Size   int    // placement in memory slices
	UUID          string // "MIG-…"
	// As on a GPU: frame buffer and profiling. A field that DCGM
	// measures on GPUs only (power, clocks, GPU_UTIL) is the GPU's here too.
	Fields Fields
	Odd    Odd
}

// Switch is an NvSwitch.
type Switch struct {
	ID     int
	Fields Fields
	Odd    Odd
}

// Kinds of entity that a link belongs to, as DCGM numbers them.
const (
	OfGPU    = 1
	OfSwitch = 3
)

// Link is one end of an NVLink.
type Link struct {
	Of     int // OfGPU or OfSwitch
	ID     int // of that GPU or switch
	Index  int // of the link on it
	Up     bool
	Fields Fields
	Odd    Odd
}

// CPU is a CPU that DCGM knows (Grace), with its cores.
type CPU struct {
	ID          int
	First, Last int // core ids
	Fields      Fields
	Odd         Odd
	Cores       []Core
}

// Core holds the values of one core; a core without values needs none.
type Core struct {
	ID     int
	Fields Fields
	Odd    Odd
}

// Incident is a finding of DCGM's health system.
type Incident struct {
	GPU    int
	System int // one of DCGM_HEALTH_WATCH_*, or WatchAll
	Result int // 0 pass, 10 warning, 20 failure
	Code   int // DCGM_FR_*
}

// WatchAll is DCGM_HEALTH_WATCH_ALL, 0xFFFFFFFF: what DCGM gives the gravest XIDs.
const WatchAll = -1

// Peer is the peer-to-peer status of a GPU towards another.
type Peer struct{ From, To, Status int }

// XID is one error event of a GPU. DCGM keeps each as a value of field 230
// with the time of the event.
//
// A host engine knows those that happened while it runs: not those that are in the state
// when it starts, unless they are in the kernel log.
type XID struct {
	Code    int
	At      time.Time // microsecond resolution
	Kernel  bool      // read from the kernel log, of a GPU only
	Compute bool      // of an instance: recorded on its compute instance
}

// nvml is the machine as the driver shows it.
func (s State) nvml() (fakenvml.State, error) {
	m := fakenvml.State{Driver: s.DriverVersion}
	for _, c := range s.GPUs {
		device := fakenvml.GPU{
			UUID: c.UUID, Name: c.Product, PCIBusID: c.PCIBusID, Minor: c.Minor, MemoryMiB: c.MemoryMiB, Lost: c.Lost, MIG: c.MIG,
		}
		if table, ok := mig.ForModel(c.Product); ok {
			device.Spec = table.Spec()
		}
		for _, i := range c.Instances {
			name, err := mig.ParseName(i.Profile)
			if err != nil {
				return m, fmt.Errorf("instance %d of %s: %w", i.ID, c.UUID, err)
			}
			device.Instances = append(device.Instances, fakenvml.Instance{
				ID: i.ID, Computes: i.computes(),
				Placement: mig.Placement{Profile: mig.Profile{Compute: i.ComputeSlices, Memory: i.Size, Attrs: name.Attrs}, Start: i.Start},
			})
		}
		m.GPUs = append(m.GPUs, device)
	}
	return m, nil
}

// computes are the compute instances, which share the GPU instance evenly.
func (i Instance) computes() []fakenvml.Compute {
	if len(i.UUIDs) == 0 {
		return fakenvml.Whole(i.UUID)
	}
	var out []fakenvml.Compute
	for k, uuid := range append([]string{i.UUID}, i.UUIDs...) {
		out = append(out, fakenvml.Compute{ID: k, Slices: i.ComputeSlices / (1 + len(i.UUIDs)), UUID: uuid})
	}
	return out
}
