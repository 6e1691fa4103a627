package fakenvml

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// ModeChange is what it takes for a change of the MIG mode to take effect.
type ModeChange int

// Ways of changing the mode.
const (
	AtOnce     ModeChange = iota // Hopper and newer
	WithReset                    // Ampere: the driver resets, if nobody uses any card
	WithReboot                   // Ampere passed through to a virtual machine
)

// State is the machine.
type State struct {
	Driver string
	Cards  []Card
	// Hang keeps every call until it is taken back.
	Hang bool
	// Kill ends the process at a change, counted from the first the machine saw:
	// before it takes effect or, with KillAfter, after. 0 is never.
	Kill      int
	KillAfter bool
	// Changes that the machine has seen.
	Changes int
	// Fails are operations that fail: "create", "create-compute", "destroy",
	// "destroy-compute", "mode".
	Fails []Fail
}

// Fail makes the next Times calls of an operation return an NVML code.
type Fail struct {
	Op          string
	Code, Times int
}

// Card is one GPU; its index is its place in State.Cards.
type Card struct {
	UUID, Name string
	MemoryMiB  int
	MIG        bool
	Pending    bool // the mode asked for, where it waits for a reset
	Change     ModeChange
	Lost       bool // fell off the bus
	// PID of a process on the whole card, 0 for none.
	PID int
	// Spec is what the product can be cut into; no profiles for one that cannot.
	Spec      mig.Spec
	Instances []Instance
	serial    int
}

// Instance is one GPU instance.
type Instance struct {
	ID        int
	Placement mig.Placement
	// Compute is false for one that was left without its compute instance.
	Compute bool
	UUID    string // of its MIG device
	PID     int    // of a process in it, 0 for none
}

// profileIndex are NVML's GPU_INSTANCE_PROFILE numbers.
func profileIndex(p mig.Profile, double bool) int {
	type key struct {
		compute int
		attrs   mig.Attr
	}
	if double && p.Attrs == 0 {
		return 9
	}
	return map[key]int{
		{1, 0}: 0, {2, 0}: 1, {3, 0}: 2, {4, 0}: 3, {7, 0}: 4, {1, mig.AttrMedia}: 7, {2, mig.AttrMedia}: 8,
		{1, mig.AttrGraphics}: 10, {2, mig.AttrGraphics}: 11, {4, mig.AttrGraphics}: 12,
		{1, mig.AttrNoMedia}: 13, {2, mig.AttrNoMedia}: 14, {1, mig.AttrAllMedia}: 15, {2, mig.AttrAllMedia}: 16,
	}[key{p.Compute, p.Attrs}]
}

// profileID is the driver's own number of the k-th profile: not its index.
func profileID(k int) int { return 40 - k }

// Write makes the machine be s.
func (s State) Write(path string) error {
	if err := os.WriteFile(path+".go", []byte(s.text()), 0o600); err != nil {
		return fmt.Errorf("writing the NVML double's state: %w", err)
	}
	if err := os.Rename(path+".go", path); err != nil {
		return fmt.Errorf("writing the NVML double's state: %w", err)
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
	for i, c := range s.Cards {
		pending := c.Pending || c.MIG
		fmt.Fprintf(&b, "card %d %s %d %d %d %d %d %d %d %d %d %s\n", i, c.UUID, number(c.MIG), number(pending), c.Change, number(c.Lost),
			c.Spec.ComputeSlices, c.Spec.MediaEngines, c.MemoryMiB, c.PID, c.serial, c.Name)
		for k, p := range c.Spec.Profiles {
			fmt.Fprintf(&b, "profile %d %d %d %d %d %d %d %d %s %s\n", i, profileIndex(p.Profile, c.double(k)), profileID(k), p.Compute, p.Memory,
				p.Media, p.Max, c.MemoryMiB*p.Memory/max(1, c.Spec.MemorySlices), p.Name, strings.Trim(fmt.Sprint(p.Starts), "[]"))
		}
		for _, m := range c.Instances {
			fmt.Fprintf(&b, "instance %d %d %d %d %d %d %s\n", i, m.ID, c.idOf(m.Placement.Profile), m.Placement.Start, number(m.Compute), m.PID, m.UUID)
		}
	}
	return b.String()
}

// double reports whether profile k is the one with twice the memory.
func (c Card) double(k int) bool {
	p := c.Spec.Profiles[k]
	for _, q := range c.Spec.Profiles {
		if q.Compute == p.Compute && q.Attrs == p.Attrs && q.Memory < p.Memory {
			return true
		}
	}
	return false
}

func (c Card) idOf(p mig.Profile) int {
	for k, q := range c.Spec.Profiles {
		if q.Profile == p {
			return profileID(k)
		}
	}
	return 0
}
