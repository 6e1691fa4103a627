package fakenvml

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// EnvState is the environment variable with the path of the state file.
const EnvState = "FAKENVML_STATE"

// ModeChange is what a change of the MIG mode requires to take effect.
type ModeChange int

// Kinds of mode changes.
const (
	AtOnce     ModeChange = iota // Hopper and newer
	WithReset                    // Ampere: the driver resets the GPU if no GPU is in use
	WithReboot                   // Ampere passed through to a virtual machine
)

// State is the machine.
type State struct {
	Driver string // its version
	GPUs   []GPU
	// Changes counts the machine's changes.
	Changes int
	// Lines are faults, and of the DCGM fake what is its own:
	//
	//	init !CODE         initialising fails with an NVML code
	//	hang 1             every call blocks while it is set
	//	kill N WHEN        the process ends at the N-th change, counted from the machine's first,
	//	                   before or after the change takes effect
	//	fail.OP CODE TIMES the next calls of an operation return the code: create, create-compute,
	//	                   destroy, destroy-compute, mode
	Lines Lines
}

// Lines are name → value.
type Lines = map[string]string

// GPU is one GPU; its index is its position in State.GPUs.
type GPU struct {
	UUID, Name string
	PCIBusID   string // "00000000:01:00.0"; empty is the bus after its index
	PCIDevice  int    // PCI device ID; 0 is H100 SXM's
	Minor      int
	MemoryMiB  int
	Lost       bool // fell off the bus
	// Spec is the product's MIG geometry; no profiles for a product without MIG.
	Spec    mig.Spec
	MIG     bool // in MIG mode
	Pending bool // the requested mode, pending until a reset
	Change  ModeChange
	// PID of a process on the whole GPU, 0 for none.
	PID int
	// GPM is a GPU that can be profiled, Hopper or newer.
	GPM bool
	// XIDs that happened, oldest first. nil is a driver without such events.
	XIDs []XID
	// Values by name, in NVML's units, as c/device.c has them: "util" "37 12", "memory" "TOTAL USED
	// RESERVED" in bytes, "power" in milliwatts, "compute" "PID:BYTES …", "sm" "PID:PERCENT …",
	// "capability" "9 0". What is not there is not supported, except that memory is free, nothing
	// runs, and the compute capability is Hopper's. "!N" fails with NVML code N.
	Values    Lines
	Instances []Instance
}

// XID is one error event.
type XID struct {
	Code int
	// On is the GPU instance and the compute instance it is attributed to, "2/0"; empty for the GPU.
	On string
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
	PID       int // of a process in it, 0 for none
	Values    Lines
}

// Compute is one compute instance, and so a MIG device. Those of an instance lie one after the
// other.
type Compute struct {
	ID     int // 0 … 7
	Slices int // 0 is all of the GPU instance
	UUID   string
}

// Whole is the compute instance that has all of its GPU instance.
func Whole(uuid string) []Compute { return []Compute{{UUID: uuid}} }

// Product is the i-th GPU, one of a product with MIG: with the instances of a layout, of which a
// process uses those with a "!" before their placement, or for "-" out of MIG mode.
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
			m.PID = 1000 + k
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
	whole = true
	var ps []mig.Placement
	for _, m := range c.Instances {
		if len(m.Computes) == 0 {
			whole = false
			continue
		}
		ps = append(ps, m.Placement)
	}
	return mig.NewLayout(ps...), whole
}

// profileIndex returns NVML's GPU_INSTANCE_PROFILE number. The profile with twice the memory of
// another one has a number of its own.
func (c GPU) profileIndex(p mig.Profile) int {
	type key struct {
		compute int
		attrs   mig.Attr
	}
	if p.Attrs == 0 && slices.ContainsFunc(c.Spec.Profiles, func(q mig.ProfileSpec) bool {
		return q.Compute == p.Compute && q.Attrs == 0 && q.Memory < p.Memory
	}) {
		return 9
	}
	return map[key]int{
		{1, 0}: 0, {2, 0}: 1, {3, 0}: 2, {4, 0}: 3, {7, 0}: 4, {1, mig.AttrMedia}: 7, {2, mig.AttrMedia}: 8,
		{1, mig.AttrGraphics}: 10, {2, mig.AttrGraphics}: 11, {4, mig.AttrGraphics}: 12,
		{1, mig.AttrNoMedia}: 13, {2, mig.AttrNoMedia}: 14, {1, mig.AttrAllMedia}: 15, {2, mig.AttrAllMedia}: 16,
	}[key{p.Compute, p.Attrs}]
}

// profileID is the driver's own number of the k-th profile; it differs from the index.
func profileID(k int) int { return 40 - k }

// Write sets the machine's state to s by replacing the file, so that no reader sees half of it; a
// change that the library makes meanwhile is lost. A file that says the same already stays.
func (s State) Write(path string) error {
	var e encoder
	e.state(s)
	if old, err := os.ReadFile(path); err == nil && string(old) == e.String() {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".fake-*")
	if err == nil {
		_, err = f.WriteString(e.String())
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("writing the NVML fake's state: %w", err)
	}
	return nil
}

// encoder makes the file's lines "path value".
type encoder struct{ strings.Builder }

// line adds one with the words of a value.
func (e *encoder) line(path string, words ...any) {
	fmt.Fprintf(e, "%s %s", path, fmt.Sprintln(words...))
}

// flag adds a line where it is on.
func (e *encoder) flag(path string, on bool) {
	if on {
		e.line(path, 1)
	}
}

func (e *encoder) values(at string, values Lines) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		e.line(at+name, values[name])
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cudaVersion is what the library reports for CUDA 13.0.
const cudaVersion = 13000

func (e *encoder) state(s State) {
	e.line("driver", s.Driver)
	e.line("cuda", cudaVersion)
	e.line("count", len(s.GPUs))
	e.line("changes", s.Changes)
	e.values("", s.Lines)
	for i, c := range s.GPUs {
		e.gpu(i, c)
	}
}

// busID is where the i-th GPU is.
func (c GPU) busID(i int) string {
	if c.PCIBusID != "" {
		return c.PCIBusID
	}
	return fmt.Sprintf("00000000:%02X:00.0", i+1)
}

// h100SXM is the PCI device ID of H100 SXM5 80GB.
const h100SXM = 0x2330

func (c GPU) pciDevice() int {
	if c.PCIDevice != 0 {
		return c.PCIDevice
	}
	return h100SXM
}

func (e *encoder) gpu(i int, c GPU) {
	at := fmt.Sprintf("gpu.%d.", i)
	e.line(at+"uuid", c.UUID)
	e.line(at+"name", c.Name)
	e.line(at+"pci", c.busID(i))
	e.line(at+"pci_device", c.pciDevice())
	e.line(at+"minor", c.Minor)
	if c.MemoryMiB > 0 {
		e.line(at+"mib", c.MemoryMiB)
	}
	e.flag(at+"lost", c.Lost)
	if c.PID != 0 {
		e.line(at+"pid", c.PID)
	}
	e.flag(at+"gpm", c.GPM)
	if c.XIDs != nil {
		words := make([]string, len(c.XIDs))
		for k, x := range c.XIDs {
			words[k] = fmt.Sprint(x.Code)
			if x.On != "" {
				words[k] += "@" + x.On
			}
		}
		e.line(at+"xids", strings.Join(words, " "))
	}
	if _, set := c.Values["capability"]; !set {
		e.line(at+"capability", "9 0")
	}
	e.values(at, c.Values)
	if len(c.Spec.Profiles) > 0 {
		e.line(at+"mig", number(c.MIG), number(c.Pending || c.MIG))
		e.line(at+"mode_change", int(c.Change))
		e.line(at+"slices", c.Spec.ComputeSlices, c.Spec.MediaEngines)
	}
	for k, p := range c.Spec.Profiles {
		e.line(fmt.Sprintf("%sprofile.%d", at, c.profileIndex(p.Profile)), fmt.Sprintf("%d %d %d %d %d %d %s %s", profileID(k), p.Compute, p.Memory,
			p.Media, p.Max, c.MemoryMiB*p.Memory/max(1, c.Spec.MemorySlices), p.Name, strings.Trim(fmt.Sprint(p.Starts), "[]")))
	}
	for _, m := range c.Instances {
		e.instance(at, c, m)
	}
}

// computeSlices are of compute instances, by NVML's COMPUTE_INSTANCE_PROFILE number.
var computeSlices = []int{1, 2, 3, 4, 7}

func (e *encoder) instance(gpu string, c GPU, m Instance) {
	at := fmt.Sprintf("%sgi.%d.", gpu, m.ID)
	k := slices.IndexFunc(c.Spec.Profiles, func(p mig.ProfileSpec) bool { return p.Profile == m.Placement.Profile })
	e.line(at+"profile", profileID(k), m.Placement.Start)
	if m.PID != 0 {
		e.line(at+"pid", m.PID)
	}
	e.values(at, m.Values)
	start := 0
	for _, ci := range m.Computes {
		n := ci.Slices
		if n == 0 {
			n = m.Placement.Profile.Compute
		}
		e.line(fmt.Sprintf("%sci.%d.uuid", at, ci.ID), ci.UUID)
		e.line(fmt.Sprintf("%sci.%d.profile", at, ci.ID), slices.Index(computeSlices, n), start)
		start += n
	}
}
