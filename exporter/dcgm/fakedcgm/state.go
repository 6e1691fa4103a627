package fakedcgm

import "time"

// EnvState is the environment variable with the path of the state file.
const EnvState = "FAKEDCGM_STATE"

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

// Instance is one MIG GPU instance with one compute instance that fills it.
type Instance struct {
	ID            int    // GPU instance id on its GPU
	EntityID      int    // DCGM's entity id, unique on the machine
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
	System int // one of DCGM_HEALTH_WATCH_*
	Result int // 0 pass, 10 warning, 20 failure
	Code   int // DCGM_FR_*
}

// Peer is the peer-to-peer status of a GPU towards another.
type Peer struct{ From, To, Status int }

// XID is one error event of a GPU. DCGM keeps each as a value of field 230
// with the time of the event.
type XID struct {
	Code int
	At   time.Time // microsecond resolution
}
