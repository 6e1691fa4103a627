package fakenvml

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Read returns s with the machine's current modes, instances and counters. Products, measurements
// and faults stay as in s.
func (s State) Read(path string) (State, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return State{}, fmt.Errorf("reading the NVML fake's state: %w", err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		lines[name] = value
	}
	s.Changes = 0
	err = scan(lines["changes"], &s.Changes)
	s.GPUs = slices.Clone(s.GPUs)
	for i := range s.GPUs {
		if err == nil {
			err = s.GPUs[i].read(fmt.Sprintf("gpu.%d.", i), lines)
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the NVML fake's state: %w", err)
	}
	return s, nil
}

func scan(text string, out ...any) error {
	if _, err := fmt.Sscan(text, out...); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

func (c *GPU) read(at string, lines map[string]string) error {
	_, c.Lost = lines[at+"lost"]
	if mode, has := lines[at+"mig"]; has {
		var current, pending int
		if err := scan(mode, &current, &pending); err != nil {
			return err
		}
		c.MIG, c.Pending = current == 1, pending == 1
	}
	was := c.Instances
	c.Instances = nil
	for id := range 15 {
		at := fmt.Sprintf("%sgi.%d.", at, id)
		text, has := lines[at+"profile"]
		if !has {
			continue
		}
		m := Instance{ID: id}
		var profile int
		if err := scan(text, &profile, &m.Placement.Start); err != nil {
			return err
		}
		if k := 40 - profile; k >= 0 && k < len(c.Spec.Profiles) {
			m.Placement.Profile = c.Spec.Profiles[k].Profile
		}
		if pid, has := lines[at+"pid"]; has {
			if err := scan(pid, &m.PID); err != nil {
				return err
			}
		}
		for ci := range 8 {
			if uuid, has := lines[fmt.Sprintf("%sci.%d.uuid", at, ci)]; has {
				m.Computes = append(m.Computes, Compute{ID: ci, Slices: computeSlices(lines[fmt.Sprintf("%sci.%d.profile", at, ci)], m.Placement), UUID: uuid})
			}
		}
		if k := slices.IndexFunc(was, func(old Instance) bool { return old.ID == id && old.Placement == m.Placement }); k >= 0 {
			m.Values = maps.Clone(was[k].Values)
		}
		c.Instances = append(c.Instances, m)
	}
	return nil
}

// computeSlices is 0 for the compute instance that has all slices.
func computeSlices(text string, of mig.Placement) int {
	var profile int
	if scan(text, &profile) != nil || profile > 4 {
		return 0
	}
	n := []int{1, 2, 3, 4, 7}[profile]
	if n == of.Profile.Compute {
		return 0
	}
	return n
}
