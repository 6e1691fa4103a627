package fakenvml

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

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
	Driver string
	GPUs   []GPU
	// Hang blocks every call until it is cleared.
	Hang bool
	// Kill ends the process at a change, counted from the machine's first: before the change takes
	// effect or, with KillAfter, after it. 0 is never.
	Kill      int
	KillAfter bool
	// Changes counts the machine's changes.
	Changes int
	// Fails are operations that fail: "create", "create-compute", "destroy", "destroy-compute",
	// "mode".
	Fails []Fail
}

// Fail makes the next Times calls of an operation return an NVML code.
type Fail struct {
	Op          string
	Code, Times int
}

// GPU is one GPU; its index is its position in State.GPUs.
type GPU struct {
	UUID, Name string
	MemoryMiB  int
	MIG        bool
	Pending    bool // the requested mode, pending until a reset
	Change     ModeChange
	Lost       bool // fell off the bus
	// PID of a process on the whole GPU, 0 for none.
	PID int
	// Spec is the product's MIG geometry; no profiles for a product without MIG.
	Spec      mig.Spec
	Instances []Instance
	serial    int
}

// Instance is one GPU instance.
type Instance struct {
	ID        int
	Placement mig.Placement
	// Compute is false for an instance without its compute instance.
	Compute bool
	UUID    string // of its MIG device
	PID     int    // of a process in it, 0 for none
}

// profileIndex returns NVML's GPU_INSTANCE_PROFILE number. large selects the profile with twice the
// memory.
func profileIndex(p mig.Profile, large bool) int {
	type key struct {
		compute int
		attrs   mig.Attr
	}
	if large && p.Attrs == 0 {
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

// Write sets the machine's state to s.
func (s State) Write(path string) error {
	if err := os.WriteFile(path+".go", []byte(s.text()), 0o600); err != nil {
		return fmt.Errorf("writing the fake's state: %w", err)
	}
	if err := os.Rename(path+".go", path); err != nil {
		return fmt.Errorf("writing the fake's state: %w", err)
	}
	return nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s State) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "driver %s\nchanges %d\n", s.Driver, s.Changes)
	if s.Hang {
		b.WriteString("hang 1\n")
	}
	if s.Kill > 0 {
		fmt.Fprintf(&b, "kill %d %s\n", s.Kill, map[bool]string{true: "after", false: "before"}[s.KillAfter])
	}
	for _, f := range s.Fails {
		fmt.Fprintf(&b, "fail %s %d %d\n", f.Op, f.Code, f.Times)
	}
	for i, c := range s.GPUs {
		pending := c.Pending || c.MIG
		fmt.Fprintf(&b, "gpu %d %s %d %d %d %d %d %d %d %d %d %s\n", i, c.UUID, number(c.MIG), number(pending), c.Change, number(c.Lost),
			c.Spec.ComputeSlices, c.Spec.MediaEngines, c.MemoryMiB, c.PID, c.serial, c.Name)
		for k, p := range c.Spec.Profiles {
			fmt.Fprintf(&b, "profile %d %d %d %d %d %d %d %d %s %s\n", i, profileIndex(p.Profile, c.large(k)), profileID(k), p.Compute, p.Memory,
				p.Media, p.Max, c.MemoryMiB*p.Memory/max(1, c.Spec.MemorySlices), p.Name, strings.Trim(fmt.Sprint(p.Starts), "[]"))
		}
		for _, m := range c.Instances {
			fmt.Fprintf(&b, "instance %d %d %d %d %d %d %s\n", i, m.ID, c.idOf(m.Placement.Profile), m.Placement.Start, number(m.Compute), m.PID, m.UUID)
		}
	}
	return b.String()
}

// large reports whether profile k is the one with twice the memory.
func (c GPU) large(k int) bool {
	p := c.Spec.Profiles[k]
	for _, q := range c.Spec.Profiles {
		if q.Compute == p.Compute && q.Attrs == p.Attrs && q.Memory < p.Memory {
			return true
		}
	}
	return false
}

func (c GPU) idOf(p mig.Profile) int {
	for k, q := range c.Spec.Profiles {
		if q.Profile == p {
			return profileID(k)
		}
	}
	return 0
}
