package demand

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Device is one request of a resource claim (DRA), with what its device class and
// its selectors say reduced to plain values.
type Device struct {
	Name   string // of the request, for errors
	Driver string // "gpu.nvidia.com"
	// Attributes that a device must have exactly, by name in the driver's domain:
	// "type" is "gpu" or "mig", "profile" is "3g.40gb". "productName" says which
	// cards will do and not how much of them; it may be there.
	Attributes map[string]string
	Count      int
	// All wants every device of a node that is like this.
	All bool
	// Admin access looks at devices that others hold and takes none.
	Admin bool
	// MemoryMiB is the part of each device's memory that is asked for, 0 for the
	// whole device.
	MemoryMiB int
}

// Drivers of accelerators, and whose cards they are.
var driverVendors = map[string]string{
	"gpu.nvidia.com": "nvidia",
	"gpu.amd.com":    "amd",
	"gpu.intel.com":  "intel",
}

// where are attributes that say which cards will do, of which the planner is told
// elsewhere. None of them changes how much is wanted.
var where = []string{"productName"}

// IsAccelerator reports whether a DRA driver's devices are accelerators.
func IsAccelerator(driver string) bool { return driverVendors[driver] != "" }

// FromDevices reads the requests of one claim. Devices of drivers that have no
// accelerators are passed over. The error names the request and says what of it
// has no size that is known; nothing is taken for zero.
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
	vendor := driverVendors[d.Driver]
	switch {
	case d.Driver == "":
		return Demand{}, fmt.Errorf("of which driver is not said")
	case vendor == "" || d.Admin:
		return Demand{}, nil
	case d.All:
		return Demand{}, fmt.Errorf("all devices of a node: how many that is depends on the node")
	case d.Count < 1 || d.Count > maxAmount || d.MemoryMiB < 0:
		return Demand{}, fmt.Errorf("%d devices, %d MiB of each is not possible", d.Count, d.MemoryMiB)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		if name != "type" && name != "profile" && !slices.Contains(where, name) {
			return Demand{}, fmt.Errorf("attribute %s: how large such a device is, is not known", name)
		}
	}
	if d.Attributes["profile"] != "" || d.Attributes["type"] == "mig" {
		return d.instances(vendor)
	}
	if !isCard(vendor, d.Attributes["type"]) {
		return Demand{}, fmt.Errorf("type %q: how large such a device is, is not known", d.Attributes["type"])
	}
	if d.MemoryMiB > 0 {
		return Demand{Vendor: vendor, Fraction: &Fraction{MemoryMiB: d.MemoryMiB, Cards: d.Count}}, nil
	}
	return Demand{Vendor: vendor, Cards: d.Count}, nil
}

// isCard reports whether devices of a type are whole cards. NVIDIA's driver has
// instances beside the cards, so that a claim must say which.
func isCard(vendor, deviceType string) bool {
	switch vendor {
	case "nvidia":
		return deviceType == "gpu"
	case "amd":
		return deviceType == "amdgpu"
	}
	return deviceType == "" || deviceType == "gpu"
}

func (d Device) instances(vendor string) (Demand, error) {
	profile := d.Attributes["profile"]
	switch t := d.Attributes["type"]; {
	case vendor != "nvidia" || t != "mig" && t != "":
		return Demand{}, fmt.Errorf("profile %q of a device of type %q", profile, t)
	case profile == "":
		return Demand{}, fmt.Errorf("MIG instances of any profile: want one profile")
	case d.MemoryMiB > 0:
		return Demand{}, fmt.Errorf("a part of a MIG instance has no size that is known")
	}
	name, err := mig.ParseName(profile)
	if err != nil {
		return Demand{}, err
	}
	if name.GB == 0 {
		return Demand{}, fmt.Errorf("MIG profile %q: want memory, as in 3g.40gb", profile)
	}
	return Demand{MIG: []Instances{named(name, d.Count)}}, nil
}
