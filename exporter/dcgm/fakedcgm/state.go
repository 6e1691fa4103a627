package fakedcgm

import "time"

// EnvState names the environment variable through which a process tells the
// double where its state file lies.
const EnvState = "FAKEDCGM_STATE"

// State is the machine that the double pretends to be. The double reads the
// file again whenever it has changed.
type State struct {
	DriverVersion string
	Cards         []Card

	// HangFor makes each call that goes to the host engine sleep that long
	// before it answers. A shorter HangFor written meanwhile ends the sleep.
	HangFor time.Duration
	// Dead makes the host engine be gone: a new connection is refused, an
	// existing one stays invalid even after Dead is taken back.
	Dead bool
}

// Card is one GPU. Its DCGM GPU id is its Index.
type Card struct {
	Index, Minor int
	UUID         string // "GPU-…"
	Product      string // as the driver names it: "NVIDIA H100 80GB HBM3"
	PCIBusID     string // "00000000:07:00.0"
	MemoryMiB    int
	MIG          bool // in MIG mode
	// Lost is a card that fell off the bus: it is still listed, with the
	// status "lost", and reads blank from then on, as DCGM's does.
	Lost bool
	// Fields holds DCGM field id → value in DCGM's own unit. A field that is
	// absent reads as DCGM's blank; NaN reads as "not supported". What follows
	// from the rest of the card (name, UUID, MIG mode, total memory, last XID)
	// need not be set. A card whose field 1001 is NaN cannot be profiled.
	Fields    map[uint16]float64
	Instances []Instance
	XIDs      []XID
}

// Instance is one MIG GPU instance with one compute instance that fills it.
type Instance struct {
	ID            int    // GPU instance id on its card
	EntityID      int    // DCGM's entity id, unique on the machine
	Profile       string // "3g.40gb"
	ComputeSlices int
	Start, Size   int    // placement in memory slices
	UUID          string // "MIG-…"
	// Fields as on a card: frame buffer and profiling. A field that DCGM
	// measures on cards only (power, clocks, GPU_UTIL) is the card's here too.
	Fields map[uint16]float64
}

// XID is one error event of a card. DCGM keeps each as a value of field 230
// with the time of the event.
type XID struct {
	Code int
	At   time.Time // microsecond resolution
}
