package fakenvml

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// EnvState is the environment variable with the path of the state file.
const EnvState = "FAKENVML_STATE"

// State is the machine, as it is in the file.
type State struct {
	Driver string // its version
	GPUs   []GPU
	// Changes counts the machine's changes.
	Changes int
	// Lines are faults:
	//
	//	hang_ms MS                 each call sleeps that long before it answers; a shorter one written
	//	                           meanwhile ends the sleep
	//	kill N WHEN                the process ends at the N-th change, counted from the machine's first,
	//	                           before or after the change takes effect
	//	fail.FUNCTION CODE TIMES   the library's function gives the code, so many times or, without
	//	                           a number, always
	//
	// fakedcgm has more.
	Lines Lines
	// Engine and Parts are for fakedcgm only. Engine is a remote host engine, "ADDRESS RUN"; each start of
	// it has another RUN. Empty: no host engine answers.
	Engine string `json:",omitempty"`
	Parts  []Part `json:",omitempty"`
}

// Part is a device beside the GPUs. It is an NvSwitch; an NVLink, whose ID is a fakedcgm.LinkID and
// which has the value "up" "1" while it is up; a CPU that DCGM knows (Grace) with "cores" "FIRST LAST";
// or a core that has values.
type Part struct {
	Kind   int // fakedcgm's
	ID     uint32
	Values Lines
}

// Lines are name → value.
type Lines = map[string]string

// GPU is one GPU; its index is its position in State.GPUs.
type GPU struct {
	UUID, Name string
	PCIBusID   string // "00000000:01:00.0"; empty is the bus after its index
	PCIDevice  int    // PCI device ID; 0 is H100 SXM's
	Minor      int
	MemoryMiB  int  `json:",omitempty"`
	Lost       bool // fell off the bus
	// Spec is the product's MIG geometry; no profiles for a product without MIG.
	Spec    mig.Spec
	MIG     bool // in MIG mode
	Pending bool // the requested mode, pending until a reset; implied by MIG
	// GPM: the GPU can be profiled, as Hopper and newer can.
	GPM bool
	// XIDs that happened, oldest first. For DCGM they are those that the host engine knows: of those
	// before its start only the ones in the kernel log. nil is a driver without such events.
	XIDs []XID
	// Values by name, in NVML's units, as c/device.c has them: "util" "37 12", "memory" "TOTAL USED
	// RESERVED" in bytes, "power" in milliwatts, "compute" "PID:BYTES …", "sm" "PID:PERCENT …". A
	// missing value is not supported. Without "memory" all memory is free, and without a list of
	// processes none runs. "!N" fails with NVML code N.
	Values    Lines
	Instances []Instance
}

// XID is one error event.
type XID struct {
	Code int
	// On is what it is attributed to: "2" the GPU instance, "2/0" a compute instance on it; empty for the GPU.
	On string
	At int64 `json:",omitempty"` // microseconds since 1970, for DCGM, which keeps them
}

// XIDs of a GPU itself.
func XIDs(codes ...int) []XID {
	out := []XID{}
	for _, code := range codes {
		out = append(out, XID{Code: code})
	}
	return out
}

// Instance is one GPU instance.
type Instance struct {
	ID        int // 0 … 14
	Placement mig.Placement
	Computes  []Compute
	Values    Lines
}

// Compute is one compute instance, and so a MIG device.
type Compute struct {
	ID     int // 0 … 7
	UUID   string
	Start  int // the first of the GPU instance's compute slices
	Slices int // 0 is all of them
}

// Whole is the compute instance that has all of its GPU instance.
func Whole(uuid string) []Compute { return []Compute{{UUID: uuid}} }

// Busy is among the values of a GPU or an instance that a process uses.
func Busy(pid int) Lines { return Lines{"compute": fmt.Sprint(pid, ":1048576")} }

// Product returns the i-th GPU: of a product with MIG, with the instances of a layout. A process
// uses an instance with a "!" before its placement. The layout "-" is a GPU outside MIG mode.
func Product(i int, product, layout string) (GPU, error) {
	table, ok := mig.ForModel(product)
	if !ok {
		return GPU{}, fmt.Errorf("no MIG geometry of %q", product)
	}
	spec := table.Spec()
	c := GPU{UUID: GPUUUID(i), Name: "NVIDIA " + product, Minor: i, MemoryMiB: spec.MemoryMiB, MIG: layout != "-", Spec: spec}
	for k, word := range strings.Fields(strings.TrimPrefix(layout, "-")) {
		place, busy := strings.CutPrefix(word, "!")
		l, err := mig.ParseLayout(table, place)
		if err != nil {
			return GPU{}, err
		}
		m := Instance{ID: k + 1, Placement: l[0], Computes: Whole(MIGUUID(i, k))}
		if busy {
			m.Values = Busy(1000 + k)
		}
		c.Instances = append(c.Instances, m)
	}
	return c, nil
}

// GPUUUID is a UUID for the i-th GPU.
func GPUUUID(i int) string { return fmt.Sprintf("GPU-%08d-0000-4000-8000-000000000000", i) }

// MIGUUID is a UUID for the k-th MIG device of the i-th GPU.
func MIGUUID(i, k int) string { return fmt.Sprintf("MIG-%08d-0000-5000-8000-%012d", i, k) }

// Layout of the instances that have a compute instance; whole reports whether all have.
func (c GPU) Layout() (layout mig.Layout, whole bool) {
	var ps []mig.Placement
	for _, m := range c.Instances {
		if len(m.Computes) > 0 {
			ps = append(ps, m.Placement)
		}
	}
	return mig.NewLayout(ps...), len(ps) == len(c.Instances)
}

// h100SXM is the PCI device ID of H100 SXM5 80GB.
const h100SXM = 0x2330

// complete returns the state with its defaults.
func (s State) complete() State {
	s.GPUs = slices.Clone(s.GPUs)
	for i := range s.GPUs {
		c := &s.GPUs[i]
		c.PCIBusID = cmp.Or(c.PCIBusID, fmt.Sprintf("00000000:%02X:00.0", i+1))
		c.PCIDevice = cmp.Or(c.PCIDevice, h100SXM)
		c.Pending = c.Pending || c.MIG
	}
	return s
}

// Read returns the machine as it is now.
func Read(path string) (s State, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		err = fmt.Errorf("reading the fakes' state: %w", err)
	}
	return s, err
}

// Write sets the machine's state to s by replacing the file, so that no reader sees half of it; a
// change that the library makes meanwhile is lost. A file that says the same already stays.
func (s State) Write(path string) error {
	text, err := json.Marshal(s.complete())
	if old, readErr := os.ReadFile(path); err == nil && readErr == nil && bytes.Equal(old, text) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(path+".tmp", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		err = fmt.Errorf("writing the fakes' state: %w", err)
	}
	return err
}
