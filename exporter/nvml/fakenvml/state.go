package fakenvml

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// EnvState is the environment variable with the path of the state file.
const EnvState = "FAKENVML_STATE"

// State is the machine that the fake simulates. The fake reads the file again
// whenever it has changed.
type State struct {
	Driver string
	GPUs   []GPU
	// Init is the NVML code with which initialising fails; 0 succeeds.
	Init int
	// Hang blocks every call while it is set.
	Hang bool
}

// GPU is one GPU; its index is its place in State.GPUs.
type GPU struct {
	UUID, Name, PCIBusID string
	Minor                int
	Lost                 bool // fell off the bus
	MIG                  bool // in MIG mode
	MostInstances        int  // 7, or 0 for a GPU that cannot be repartitioned
	// GPM is a GPU that can be profiled, Hopper or newer.
	GPM bool
	// XIDs that happened, oldest first. nil is a driver without such events.
	XIDs []int
	// Values by name, in NVML's units, as c/nvml.c has them: "util" "37 12",
	// "memory" "TOTAL USED RESERVED", "power" in milliwatts, "sm" "PID:PERCENT …".
	// What is not there is not supported; "!N" fails with NVML code N.
	Values    map[string]string
	Instances []Instance
}

// Instance is one MIG device.
type Instance struct {
	UUID, Name  string // the driver's name ends in " MIG 3g.40gb"
	ID          int    // GPU instance id
	Slices      int    // of compute
	Start, Size int    // in memory slices
	Values      map[string]string
}

// Write puts the state at path by writing a neighbour and renaming it, so that
// the fake never reads half of it.
func (s State) Write(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".fakenvml-*")
	if err != nil {
		return fmt.Errorf("writing the NVML fake's state: %w", err)
	}
	_, err = f.WriteString(s.text())
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing the NVML fake's state: %w", err)
	}
	return nil
}

// text is the state as lines of "path value".
func (s State) text() string {
	var b strings.Builder
	line := func(path string, value any) { fmt.Fprintf(&b, "%s %v\n", path, value) }
	line("driver", s.Driver)
	line("count", len(s.GPUs))
	if s.Init != 0 {
		line("init", fmt.Sprintf("!%d", s.Init))
	}
	if s.Hang {
		line("hang", 1)
	}
	for i, c := range s.GPUs {
		at := fmt.Sprintf("gpu.%d.", i)
		line(at+"uuid", c.UUID)
		line(at+"name", c.Name)
		line(at+"pci", c.PCIBusID)
		line(at+"minor", c.Minor)
		if c.Lost {
			line(at+"lost", 1)
		}
		if c.MostInstances > 0 {
			line(at+"mig", map[bool]int{true: 1}[c.MIG])
			line(at+"mig_most", c.MostInstances)
		}
		if c.GPM {
			line(at+"gpm", 1)
		}
		if c.XIDs != nil {
			line(at+"xids", strings.Trim(fmt.Sprint(c.XIDs), "[]"))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Values)) {
			line(at+name, c.Values[name])
		}
		for k, m := range c.Instances {
			at := fmt.Sprintf("gpu.%d.mig.%d.", i, k)
			line(at+"uuid", m.UUID)
			line(at+"name", m.Name)
			line(at+"gi", m.ID)
			line(at+"slices", m.Slices)
			line(at+"place", fmt.Sprintf("%d %d", m.Start, m.Size))
			for _, name := range slices.Sorted(maps.Keys(m.Values)) {
				line(at+name, m.Values[name])
			}
		}
	}
	return b.String()
}
