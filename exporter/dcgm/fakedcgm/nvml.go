package fakedcgm

import (
	"bytes"
	"fmt"
	"os"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// writeNVML writes the machine for the NVML fake, where it looks for it beside
// the state at path. The file changes only with the layout.
func (s State) writeNVML(path string) error {
	m, err := s.nvml()
	if err != nil {
		return err
	}
	next := path + ".nvml.next"
	if err := m.Write(next); err != nil {
		return err
	}
	text, err := os.ReadFile(next)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(path + ".nvml"); err == nil && bytes.Equal(old, text) {
		return os.Remove(next)
	}
	return os.Rename(next, path+".nvml")
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
				ID: i.ID, Computes: fakenvml.Whole(i.UUID),
				Placement: mig.Placement{Profile: mig.Profile{Compute: i.ComputeSlices, Memory: i.Size, Attrs: name.Attrs}, Start: i.Start},
			})
		}
		m.GPUs = append(m.GPUs, device)
	}
	return m, nil
}
