package fakedcgm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
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
	Parts         []Part
	// XIDs in the order in which the host engine learns of them. One knows those that happened
	// while it runs: not those that are there when it starts, unless they are in the kernel log.
	XIDs []XID
	// Lines of the machine:
	//
	//	hang_ms MS           each call to the host engine sleeps that long before it answers;
	//	                     a shorter one written meanwhile ends the sleep
	//	dead 1               the host engine is gone: a new connection is refused, an existing one
	//	                     stays invalid even after the line is gone
	//	no_nvml 1            it has not found the driver's library: no GPUs, and -56 for watches
	//	fail.CALL STATUS     the function of that name gives the status
	//	incident.N GPU SYSTEM RESULT CODE   the N-th finding of the health system; the GPU's number,
	//	                     DCGM_HEALTH_WATCH_*, 10 a warning or 20 a failure, DCGM_FR_*
	//	peer.FROM.TO STATUS  a peer-to-peer status that is not 0
	//	links36 1            DCGM 4.6, which knows 36 links of a GPU; before there were 18
	Lines Lines
}

// Lines are name → value.
type Lines = map[string]any

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
	// Lines of the GPU: "detached" is one that the driver no longer has (DCGM lists it and knows
	// its name, and its values are blank), "frozen" one that watches take no new sample of, and
	// "profiled" has the fields it can profile, where they are not 1001 … 1012.
	Lines     Lines
	Instances []Instance
}

// Fields are DCGM field id → value.
type Fields = map[uint16]float64

// Odd are answers of fields that are no numbers: DCGM's four blanks "blank",
// "not_found", "unsupported" and "not_permitted", the same with "int32_" before
// them for fields that are 32 bits wide at their source, "nan", "inf",
// "status:-18" for a status without a value, and "text:…".
type Odd = map[uint16]string

// Instance is one MIG GPU instance.
type Instance struct {
	ID       int // GPU instance id on its GPU
	EntityID int // DCGM's entity id, unique on the machine
	// UUIDs are of further compute instances, which share it evenly with that of UUID.
	UUIDs         []string
	Profile       string // "3g.40gb"
	ComputeSlices int
	Start, Size   int    // placement in memory slices
	UUID          string // "MIG-…"
	// As on a GPU: frame buffer and profiling. A field that DCGM
	// measures on GPUs only (power, clocks, GPU_UTIL) is the GPU's here too.
	Fields Fields
}

// Entity groups, as DCGM numbers them.
const (
	KindGPU      = 1
	KindSwitch   = 3
	KindInstance = 4
	KindCompute  = 5
	KindLink     = 6
	KindCPU      = 7
	KindCore     = 8
)

// Part is something beside the GPUs: an NvSwitch, an NVLink, whose ID is LinkID's and which has
// the line "up" where it is, a CPU that DCGM knows (Grace) with the line "cores FIRST LAST", or a
// core that has values.
type Part struct {
	Kind   int
	ID     uint32
	Fields Fields
	Odd    Odd
	Lines  Lines
}

// LinkID is a dcgm_link_t: the kind of what the link belongs to, its index and that entity in 8,
// 16 and 8 bits.
func LinkID(kind, of, index int) uint32 { return uint32(kind) | uint32(index)<<8 | uint32(of)<<24 }

// ComputeID is DCGM's entity id of the first compute instance in a GPU instance.
func ComputeID(instance int) int { return 8 * instance }

// XID is one error event. DCGM keeps each as a value of field 230 with the time of the event.
type XID struct {
	Kind, ID int // of the GPU, GPU instance or compute instance that DCGM attributes it to
	Code     int
	At       time.Time // microsecond resolution
	Kernel   bool      // read from the kernel log, of a GPU only
}

// Write puts the state at path, and the NVML fake's beside it, by replacing the files.
func (s State) Write(path string) error {
	e := &encoder{ids: map[int][]string{}}
	e.lines("", s.Lines)
	for _, c := range s.GPUs {
		e.gpu(c, s.DriverVersion)
	}
	for _, p := range s.Parts {
		e.entity(p.Kind, p.ID, p.Fields, p.Odd, p.Lines)
	}
	for kind, ids := range e.ids {
		e.Line(fmt.Sprint("list.", kind), strings.Join(ids, " "))
	}
	for i, x := range s.XIDs {
		e.Line(fmt.Sprint("xid.", i), x.At.UnixMicro(), x.Code, x.Kind, x.ID, number(x.Kernel))
	}
	m, err := s.nvml()
	if err = errors.Join(err, e.Err); err == nil {
		err = m.Write(path + ".nvml")
	}
	if err == nil {
		err = e.Replace(path)
	}
	if err != nil {
		return fmt.Errorf("writing the DCGM fake's state: %w", err)
	}
	return nil
}

// encoder writes the lines that c/state.c reads.
type encoder struct {
	fakenvml.Text
	ids map[int][]string // of the entities there are, by kind
}

func (e *encoder) lines(at string, lines Lines) {
	for name, value := range lines {
		e.Line(at+name, value)
	}
}

// entity adds one with its fields, and with what else is known of it.
func (e *encoder) entity(kind int, id uint32, fields Fields, odd Odd, lines Lines) {
	at := fmt.Sprintf("%d.%d", kind, id)
	e.Line(at)
	e.ids[kind] = append(e.ids[kind], fmt.Sprint(id))
	e.lines(at+".", lines)
	for field, n := range fields {
		answer := strconv.FormatFloat(n, 'g', -1, 64)
		if math.IsNaN(n) {
			answer = "!unsupported"
		}
		e.Line(fmt.Sprintf("%s.f.%d", at, field), answer)
	}
	for field, answer := range odd {
		e.Line(fmt.Sprintf("%s.f.%d", at, field), "!"+answer)
	}
}

func (e *encoder) gpu(c GPU, driver string) {
	slices := 7
	if strings.Contains(c.Product, "A30") && !strings.Contains(c.Product, "A300") {
		slices = 4
	}
	fields := Fields{52: float64(c.Index), 55: float64(c.Minor), 67: float64(number(c.MIG)), 69: float64(slices), 250: float64(c.MemoryMiB)}
	odd := Odd{1: "text:" + driver, 50: "text:" + c.Product, 54: "text:" + c.UUID, 57: "text:" + c.PCIBusID}
	lines := Lines{"lost": number(c.Lost)}
	maps.Copy(fields, c.Fields)
	maps.Copy(odd, c.Odd)
	maps.Copy(lines, c.Lines)
	for field := range c.Odd {
		delete(fields, field)
	}
	e.entity(KindGPU, uint32(c.Index), fields, odd, lines)
	for _, i := range c.Instances {
		e.entity(KindInstance, uint32(i.EntityID), i.Fields, Odd{50: "text:" + i.Profile, 54: "text:" + i.UUID},
			Lines{"gpu": c.Index, "gi": i.ID, "slices": i.ComputeSlices, "computes": 1 + len(i.UUIDs)})
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
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
