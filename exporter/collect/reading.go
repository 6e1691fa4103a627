package collect

import (
	"cmp"
	"time"
)

// EntityKind is what a value was measured on.
type EntityKind uint8

// Kinds of entity.
const (
	GPU EntityKind = iota
	Instance
	Switch     // NvSwitch
	SwitchLink // NVLink at a switch
	GPULink    // NVLink at a GPU
	CPU        // CPU that DCGM knows: Grace
	Core       // of such a CPU
)

// Entity is a GPU, a MIG instance or a device beside them at the time of a Reading. The first
// block is a GPU's identity, which its instances and links have too.
type Entity struct {
	Kind          EntityKind
	GPU           int    // number of the source: DCGM's GPU id, NVML's index
	Index         int    // the driver's index, by which device plugins number GPUs
	UUID          string // of the GPU, "GPU-…"
	Model         string // product name as the driver gives it
	PCIBusID      string
	Minor         int  // N of /dev/nvidiaN
	MIG           bool // the GPU is in MIG mode
	DriverVersion string

	InstanceID    int    // GPU instance id on the GPU
	Profile       string // "3g.40gb"
	Start         int    // first memory slice; -1 if unknown
	Size          int    // memory slices; 0 if unknown
	ComputeSlices int    // of the instance
	InstanceUUID  string // "MIG-…" of its first compute instance; empty if unknown
	// MIGDevices are the UUIDs of all its compute instances.
	MIGDevices    []string
	GPUMaxCompute int // compute slices of the whole GPU, 7 or 4; 0 if unknown

	// DCGMID is DCGM's number of an instance (see NumberInstances), a switch, a CPU or a core, and the index of a
	// link. The options -d, -s and -p select by it.
	DCGMID int
	Parent int // DCGM's number of a link's GPU or switch, or of a core's CPU

	Values []Value // sorted by Field

	// Of GPUs only; nil where the source does not know.
	Events *Events
	Health []Incident // of DCGM's health watches; empty where they found nothing
	Peers  []Peer
	Lost   bool // the source lists the GPU as lost
}

// Value of one DCGM field, or a number made of some. A value that is blank, refused or impossible
// is not in a Reading: Dropped counts it.
type Value struct {
	Field  uint16  // DCGM field id
	Number float64 // for numbers
	Text   string  // for strings
	IsText bool
	Time   time.Time // when DCGM took it; zero: unknown
}

// Known reports whether it was measured.
func (v Value) Known() bool { return !v.Time.IsZero() }

func (v Value) times(factor float64) Value {
	v.Number *= factor
	return v
}

// Reading is the result of one pass over the source; immutable.
type Reading struct {
	Taken    time.Time
	Entities []Entity // GPUs by index, each followed by its instances by id
	Devices  []Entity // switches, links, CPUs and cores, in that order
	// Dropped counts values left out, by reason: "blank", "not_supported",
	// "impossible", "error".
	Dropped map[string]int
}

// Source gives Readings. Read may take long or hang; it is called from one
// goroutine, never from a scrape.
type Source interface {
	// Read returns the values of the fields last given to Watch. An error means
	// that nothing could be read; the next Read tries again, connecting again
	// where that is needed.
	Read() (*Reading, error)
	// Watch sets the fields and how often they are sampled: every is at least 100 ms. slower has
	// longer intervals for some fields, for sources that can use them.
	Watch(fields []uint16, every time.Duration, slower map[uint16]time.Duration)
	Close() error
}

// GPUs counts the GPUs.
func (r *Reading) GPUs() (n int) {
	for i := range r.Entities {
		if r.Entities[i].Kind == GPU {
			n++
		}
	}
	return n
}

// NumberInstances gives instances the numbers that DCGM has for them, for sources other than
// DCGM. A GPU's numbers begin at its index times its compute slices. Instances with fewer slices
// come first.
func NumberInstances(entities []Entity) {
	for i := range entities {
		e := &entities[i]
		e.DCGMID = e.GPU * cmp.Or(e.GPUMaxCompute, 7)
		for k := range entities {
			o := &entities[k]
			if o.Kind == Instance && o.GPU == e.GPU && cmp.Or(cmp.Compare(o.ComputeSlices, e.ComputeSlices), cmp.Compare(o.InstanceID, e.InstanceID)) < 0 {
				e.DCGMID++
			}
		}
	}
}

// Newest is the time of the newest value; zero without any.
func (r *Reading) Newest() (newest time.Time) {
	for i := range r.Entities {
		newest = latest(newest, r.Entities[i].Values)
	}
	for i := range r.Devices {
		newest = latest(newest, r.Devices[i].Values)
	}
	return newest
}

// latest returns t, or the time of the newest value if that is later.
func latest(t time.Time, values []Value) time.Time {
	for i := range values {
		if values[i].Time.After(t) {
			t = values[i].Time
		}
	}
	return t
}

// Quiescer is a Source that can release GPUs, so that they can be repartitioned
// or reset.
type Quiescer interface {
	// Quiesce releases the GPUs with these UUIDs ("GPU-…") and their instances,
	// and reacquires those of earlier calls that are not named again. When it
	// returns nil this process has no handle of the named ones, and they are in
	// no Reading until they are reacquired. A host engine in another process is
	// not stopped and keeps its own handles, but it watches nothing of these
	// GPUs for this source any more.
	Quiesce(gpus []string) error
}
