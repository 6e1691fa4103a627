package fakenvml

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Read returns s with the machine's current modes, instances and counters. Products, measurements
// and faults stay as in s.
func (s State) Read(path string) (State, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return State{}, fmt.Errorf("reading the NVML fake's state: %w", err)
	}
	r := reader{lines: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		r.lines[name] = value
	}
	r.scan("changes", &s.Changes)
	s.GPUs = slices.Clone(s.GPUs)
	for i := range s.GPUs {
		r.gpu(fmt.Sprintf("gpu.%d.", i), &s.GPUs[i])
	}
	if r.err != nil {
		return State{}, fmt.Errorf("reading the NVML fake's state: %w", r.err)
	}
	return s, nil
}

// reader keeps the first error.
type reader struct {
	lines map[string]string
	err   error
}

// scan reads the words of a line; false without the line.
func (r *reader) scan(path string, out ...any) bool {
	text, has := r.lines[path]
	if !has {
		return false
	}
	if _, err := fmt.Sscan(text, out...); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s %q: %w", path, text, err)
	}
	return true
}

func (r *reader) gpu(at string, c *GPU) {
	_, c.Lost = r.lines[at+"lost"]
	var current, pending int
	if r.scan(at+"mig", &current, &pending) {
		c.MIG, c.Pending = current == 1, pending == 1
	}
	was := c.Instances
	c.Instances = nil
	for id := range 15 {
		at, m, profile := fmt.Sprintf("%sgi.%d.", at, id), Instance{ID: id}, 0
		if !r.scan(at+"profile", &profile, &m.Placement.Start) {
			continue
		}
		if k := profileID(profile); k >= 0 && k < len(c.Spec.Profiles) { // which is its own inverse
			m.Placement.Profile = c.Spec.Profiles[k].Profile
		}
		r.scan(at+"pid", &m.PID)
		for i := range 8 {
			ci, profile := Compute{ID: i}, 0
			if r.scan(fmt.Sprintf("%sci.%d.uuid", at, i), &ci.UUID) && r.scan(fmt.Sprintf("%sci.%d.profile", at, i), &profile) {
				if n := computeSlices[min(profile, len(computeSlices)-1)]; n != m.Placement.Profile.Compute {
					ci.Slices = n
				}
				m.Computes = append(m.Computes, ci)
			}
		}
		if k := slices.IndexFunc(was, func(old Instance) bool { return old.ID == id && old.Placement == m.Placement }); k >= 0 {
			m.Values = maps.Clone(was[k].Values)
		}
		c.Instances = append(c.Instances, m)
	}
}
