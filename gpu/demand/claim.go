package demand

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Device is one request of a resource claim (DRA), with what its device class and
// its selectors state, reduced to plain values.
type Device struct {
	Name   string // of the request, for errors
	Driver string // "gpu.nvidia.com"
	// Attributes that a device must have exactly, by name in the driver's domain:
	// "type" is "gpu" or "mig", "profile" is "3g.40gb". "productName" selects
	// GPUs without changing the size of the request; the planner gets it by another way.
	Attributes map[string]string
	Count      int
	// All requests every such device of a node.
	All bool
	// Admin access observes devices that are allocated to others and allocates none.
	Admin bool
	// MemoryMiB and CoreMilli are the requested part of each device: of its memory, and in thousandths of the device. The
	// whole device is requested if both are 0.
	MemoryMiB, CoreMilli int
}

// driver is a DRA driver of accelerators. gpu is the type of its whole GPUs. mustSay is set
// where a claim must state the type, since the driver has parts of GPUs too.
type driver struct {
	vendor, gpu string
	mustSay     bool
}

var drivers = map[string]driver{
	"gpu.nvidia.com": {"nvidia", "gpu", true},
	"gpu.amd.com":    {"amd", "amdgpu", true},
	"gpu.intel.com":  {"intel", "gpu", false},
}

// IsAccelerator reports whether a DRA driver's devices are accelerators.
func IsAccelerator(name string) bool { return drivers[name].vendor != "" }

// OneOf is one whole GPU of the first of these DRA drivers that has accelerators; zero if none has.
func OneOf(names []string) Demand {
	for _, name := range names {
		if IsAccelerator(name) {
			return Demand{Vendor: drivers[name].vendor, GPUs: 1}
		}
	}
	return Demand{}
}

// FromDevices reads the requests of one claim. Devices of drivers that have no
// accelerators are skipped. The error names the request and the part whose size
// is unknown; an unknown size is never zero.
func FromDevices(devices []Device) (Demand, error) {
	each := make([]Demand, 0, len(devices))
	for _, d := range devices {
		one, err := d.demand()
		if err != nil {
			return Demand{}, fmt.Errorf("request %s: %w", d.Name, err)
		}
		each = append(each, one)
	}
	return Sum(each...)
}

func (d Device) demand() (Demand, error) {
	known := drivers[d.Driver]
	switch {
	case d.Admin:
		return Demand{}, nil
	case d.Driver == "":
		return Demand{}, fmt.Errorf("no driver is stated")
	case known.vendor == "":
		return Demand{}, nil
	case d.All:
		return Demand{}, fmt.Errorf("all devices of a node: their number depends on the node")
	case d.Count < 1 || d.Count > maxAmount || d.MemoryMiB < 0:
		return Demand{}, fmt.Errorf("%d devices, %d MiB of each is not possible", d.Count, d.MemoryMiB)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		if name != "type" && name != "profile" && name != "productName" {
			return Demand{}, fmt.Errorf("attribute %s: the size of such a device is unknown", name)
		}
	}
	kind := d.Attributes["type"]
	switch {
	case d.Attributes["profile"] != "" || kind == "mig":
		return d.instances(known.vendor)
	case kind != known.gpu && (kind != "" || known.mustSay):
		return Demand{}, fmt.Errorf("type %q: the size of such a device is unknown", kind)
	case d.MemoryMiB+d.CoreMilli > 0:
		return Demand{Vendor: known.vendor, Fraction: &Fraction{CoreMilli: d.CoreMilli, MemoryMiB: d.MemoryMiB, GPUs: d.Count}}, nil
	}
	return Demand{Vendor: known.vendor, GPUs: d.Count}, nil
}

func (d Device) instances(vendor string) (Demand, error) {
	profile := d.Attributes["profile"]
	switch t := d.Attributes["type"]; {
	case vendor != "nvidia" || t != "mig" && t != "":
		return Demand{}, fmt.Errorf("profile %q of a device of type %q", profile, t)
	case profile == "":
		return Demand{}, fmt.Errorf("MIG instances of any profile: want one profile")
	case d.MemoryMiB+d.CoreMilli > 0:
		return Demand{}, fmt.Errorf("the size of a part of a MIG instance is unknown")
	}
	name, err := mig.ParseName(profile)
	if err != nil {
		return Demand{}, err
	}
	if name.GB == 0 {
		return Demand{}, fmt.Errorf("MIG profile %q: want memory, as in 3g.40gb", profile)
	}
	return Demand{MIG: []Instances{Named(name, d.Count)}}, nil
}
