package main

import (
	"fmt"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
)

// gpuFields have values on every GPU, and instanceFields on every instance:
// what dcgm-exporter's default counters ask for and our own series need.
var (
	gpuFields = []uint16{
		100, 101, 112, 140, 150, 155, 156, 202, 203, 204, 206, 207, 230, 251, 252, 253, 390, 391, 392, 393, 394, 395, 449,
		1001, 1004, 1005, 1009, 1010,
	}
	instanceFields = []uint16{250, 251, 252, 253, 1001, 1004, 1005}
)

// machine has H100s, partitioned into equal instances where there are any.
func machine(gpus, instances int) fakedcgm.State {
	s := fakedcgm.State{DriverVersion: "580.65.06"}
	for i := range gpus {
		device := fakedcgm.GPU{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-5a1f2b3c-0000-0000-0000-%012d", i), Product: "NVIDIA H100 80GB HBM3",
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", i+1), MemoryMiB: 81559, MIG: instances > 0, Fields: values(gpuFields),
		}
		for j := range instances {
			device.Instances = append(device.Instances, fakedcgm.Instance{
				ID: j + 7, EntityID: 7*i + j, Profile: "1g.10gb", ComputeSlices: 1, Start: j, Size: 1,
				UUID: fmt.Sprintf("MIG-5a1f2b3c-0000-%04d-0000-%012d", i, j), Fields: values(instanceFields),
			})
		}
		s.GPUs = append(s.GPUs, device)
	}
	return s
}

// values are plausible for their field; not whole where fields are not.
func values(fields []uint16) fakedcgm.Fields {
	out := fakedcgm.Fields{}
	for _, f := range fields {
		switch {
		case f == 230 || f == 395:
			out[f] = 0
		case f > 1000 && f < 1009:
			out[f] = 0.123456
		case f == 155:
			out[f] = 412.345
		case f >= 203 && f <= 207:
			out[f] = 37
		default:
			out[f] = float64(f)
		}
	}
	return out
}
