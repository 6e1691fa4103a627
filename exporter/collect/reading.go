package collect

import "time"

// EntityKind is what a value was measured on.
type EntityKind uint8

// Kinds of entity.
const (
	GPU EntityKind = iota
	Instance
)

// Entity is one card or one MIG instance at the time of a Reading. The first
// block is set for both kinds, so that an instance carries its card's identity.
type Entity struct {
	Kind          EntityKind
	GPU           int    // driver index
	UUID          string // of the card, "GPU-…"
	Model         string // product name as the driver gives it
	PCIBusID      string
	Minor         int  // N of /dev/nvidiaN
	MIG           bool // the card is in MIG mode
	DriverVersion string

	InstanceID     int    // GPU instance id on the card
	Profile        string // "3g.40gb"
	Start          int    // first memory slice; -1 where it is not known
	Size           int    // memory slices; 0 where it is not known
	ComputeSlices  int    // of the instance
	InstanceUUID   string // "MIG-…"; empty where it is not known
	DCGMID         int    // DCGM's own number of the instance, by which -d i:… asks for it
	CardMaxCompute int    // compute slices of the whole card, 7 or 4; 0 where it is not known

	Values []Value // sorted by Field

	// Of cards only. nil where the source does not tell.
	Events *Events
	Health *HealthReport
	Peers  []Peer
	Lost   bool // the source lists the card and says that it is gone
}

// Value of one DCGM field. A value that is blank, refused or impossible is not
// in the list: Dropped counts it.
type Value struct {
	Field  uint16  // DCGM field id
	Number float64 // for numbers
	Text   string  // for strings
	IsText bool
	Time   time.Time // when DCGM took it
}

// Reading is everything one pass over the source saw. It is immutable once
// handed out.
type Reading struct {
	Taken    time.Time
	Entities []Entity // cards by index, each followed by its instances by id
	Devices  []Device // switches, links, CPUs and cores, in that order
	// Dropped counts values left out, by reason: "blank", "not_supported",
	// "impossible", "error".
	Dropped map[string]int
}

// Source gives Readings. Read may take long or hang; it is called from one
// goroutine, never from a scrape.
type Source interface {
	// Read returns the values of the fields last given to Watch. An error means
	// that nothing could be read; the next Read tries again, connecting anew
	// where that is needed.
	Read() (*Reading, error)
	// Watch sets the fields wanted and how often they are taken.
	Watch(fields []uint16, every time.Duration) error
	Close() error
}
