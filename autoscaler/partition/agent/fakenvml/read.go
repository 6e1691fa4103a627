package fakenvml

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Read returns s with the machine's current modes, instances and counters. Products and faults stay
// as in s.
func (s State) Read(path string) (State, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return State{}, fmt.Errorf("reading the fake's state: %w", err)
	}
	s.GPUs = append([]GPU(nil), s.GPUs...)
	for i := range s.GPUs {
		s.GPUs[i].Instances = nil
	}
	for _, row := range strings.Split(string(text), "\n") {
		if err := s.readLine(row); err != nil {
			return State{}, fmt.Errorf("reading the fake's state: %q: %w", row, err)
		}
	}
	return s, nil
}

func (s *State) readLine(row string) error {
	word, rest, _ := strings.Cut(row, " ")
	switch word {
	case "changes":
		_, err := fmt.Sscan(rest, &s.Changes)
		return err
	case "gpu":
		var i, isMIG, pending, change, lost, skip int
		var uuid string
		var serial int
		if _, err := fmt.Sscan(rest, &i, &uuid, &isMIG, &pending, &change, &lost, &skip, &skip, &skip, &skip, &serial); err != nil {
			return err
		}
		c := &s.GPUs[i]
		c.MIG, c.Pending, c.Lost, c.serial = isMIG == 1, pending == 1, lost == 1, serial
	case "instance":
		var i, id, profile, start, compute, pid int
		var uuid string
		if _, err := fmt.Sscan(rest, &i, &id, &profile, &start, &compute, &pid, &uuid); err != nil {
			return err
		}
		c := &s.GPUs[i]
		c.Instances = append(c.Instances, Instance{ID: id, Compute: compute == 1, UUID: uuid, PID: pid,
			Placement: mig.Placement{Profile: c.Spec.Profiles[40-profile].Profile, Start: start}})
	}
	return nil
}

// Layout of a GPU: the instances that have their compute instance; whole reports whether all have.
func (c GPU) Layout() (layout mig.Layout, whole bool) {
	whole = true
	var ps []mig.Placement
	for _, m := range c.Instances {
		if !m.Compute {
			whole = false
			continue
		}
		ps = append(ps, m.Placement)
	}
	return mig.NewLayout(ps...), whole
}
