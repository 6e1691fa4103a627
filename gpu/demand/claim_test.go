package demand

import (
	"math"
	"reflect"
	"testing"
)

// device and instance are devices as NVIDIA's DRA driver publishes them.
func device(n int) Device {
	return Device{Name: "gpu", Driver: "gpu.nvidia.com", Attributes: map[string]string{"type": "gpu"}, Count: n}
}

func instance(profile string, n int) Device {
	return Device{Name: "mig", Driver: "gpu.nvidia.com", Attributes: map[string]string{"type": "mig", "profile": profile}, Count: n}
}

func with(d Device, change func(*Device)) Device {
	change(&d)
	return d
}

func TestFromDevices(t *testing.T) {
	for _, c := range []struct {
		what    string
		devices []Device
		want    string
	}{
		{"no requests", nil, "nothing"},
		{"DRA driver quickstart, gpu-test1", []Device{device(1)}, "a GPU"},
		{"DRA driver quickstart, gpu-test-count", []Device{device(2)}, "2 GPUs"},
		{
			"DRA driver quickstart, gpu-test4",
			[]Device{instance("1g.5gb", 1), instance("1g.5gb", 1), instance("2g.10gb", 1), instance("3g.20gb", 1)},
			"2 × 1g.5gb + 2g.10gb + 3g.20gb",
		},
		{"DRA driver consumable-shares, memory-sharing", []Device{with(device(1), func(d *Device) { d.MemoryMiB = 4096 })}, "4096 MiB of a GPU"},
		{"a GPU of a certain product", []Device{with(device(1), func(d *Device) {
			d.Attributes = map[string]string{"type": "gpu", "productName": "NVIDIA A100-SXM4-80GB"}
		})}, "a GPU"},
		{"a profile implies MIG", []Device{with(instance("1g.10gb+me", 3), func(d *Device) { delete(d.Attributes, "type") })}, "3 × 1g.10gb+me"},
		{"admin access is not counted", []Device{device(1), with(device(8), func(d *Device) { d.Admin = true })}, "a GPU"},
		{"admin access to all", []Device{with(device(0), func(d *Device) { d.Admin, d.All = true, true })}, "nothing"},
		{"another driver", []Device{{Name: "nic", Driver: "dra.net", All: true}}, "nothing"},
		{"Intel", []Device{{Name: "gpu", Driver: "gpu.intel.com", Count: 2}}, "2 intel GPUs"},
		{"AMD", []Device{{Name: "gpu", Driver: "gpu.amd.com", Attributes: map[string]string{"type": "amdgpu"}, Count: 1}}, "1 amd GPU"},
	} {
		if got, err := FromDevices(c.devices); err != nil || got.String() != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.what, got, err, c.want)
		}
	}
}

func TestFromDevicesRefuses(t *testing.T) {
	for want, d := range map[string]Device{
		"request gpu: all devices of a node: their number depends on the node":       with(device(0), func(d *Device) { d.All = true }),
		"request gpu: 0 devices, 0 MiB of each is not possible":                      device(0),
		"request gpu: -1 devices, 0 MiB of each is not possible":                     device(-1),
		"request gpu: 9223372036854775807 devices, 0 MiB of each is not possible":    device(math.MaxInt64),
		"request mig: MIG instances of any profile: want one profile":                instance("", 1),
		`request mig: MIG profile "x": want compute slices first, as in 3g.40gb`:     instance("x", 1),
		`request mig: MIG profile "3g": want memory, as in 3g.40gb`:                  instance("3g", 1),
		`request mig: profile "3g.40gb" of a device of type "gpu"`:                   with(instance("3g.40gb", 1), func(d *Device) { d.Attributes["type"] = "gpu" }),
		"request mig: the size of a part of a MIG instance is unknown":               with(instance("3g.40gb", 1), func(d *Device) { d.MemoryMiB = 1 }),
		`request gpu: type "vfio": the size of such a device is unknown`:             {Name: "gpu", Driver: "gpu.nvidia.com", Attributes: map[string]string{"type": "vfio"}, Count: 1},
		`request gpu: type "": the size of such a device is unknown`:                 {Name: "gpu", Driver: "gpu.nvidia.com", Count: 1},
		`request gpu: type "amdgpu-partition": the size of such a device is unknown`: {Name: "gpu", Driver: "gpu.amd.com", Attributes: map[string]string{"type": "amdgpu-partition"}, Count: 1},
		"request gpu: attribute slots: the size of such a device is unknown":         with(device(1), func(d *Device) { d.Attributes = map[string]string{"type": "gpu", "slots": "2"} }),
		"request gpu: no driver is stated":                                           {Name: "gpu", Count: 1},
	} {
		if got, err := FromDevices([]Device{device(1), d}); err == nil || err.Error() != want || !got.Zero() {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
	if _, err := FromDevices([]Device{device(1), {Name: "x", Driver: "gpu.intel.com", Count: 1}}); err == nil {
		t.Error("two vendors in one claim")
	}
}

func FuzzFromDevices(f *testing.F) {
	f.Add("gpu.nvidia.com", "mig", "3g.40gb", "", 2, 0, false, false)
	f.Add("gpu.nvidia.com", "gpu", "", "productName", 1, 4096, false, false)
	f.Add("gpu.amd.com", "amdgpu", "", "", 1, 0, true, true)
	f.Fuzz(func(t *testing.T, driver, deviceType, profile, attribute string, count, memory int, all, admin bool) {
		d := Device{Name: "r", Driver: driver, Attributes: map[string]string{}, Count: count, MemoryMiB: memory, All: all, Admin: admin}
		for name, value := range map[string]string{"type": deviceType, "profile": profile} {
			if value != "" {
				d.Attributes[name] = value
			}
		}
		if attribute != "" {
			d.Attributes[attribute] = "x"
		}
		got, err := FromDevices([]Device{d})
		if err != nil && !got.Zero() {
			t.Fatalf("%+v: %v and %v", d, got, err)
		}
		// The demand for a known accelerator is never empty.
		if err == nil && got.Zero() && !admin && IsAccelerator(driver) {
			t.Fatalf("%+v is taken for nothing", d)
		}
		if again, err2 := FromDevices([]Device{d}); !reflect.DeepEqual(again, got) || (err == nil) != (err2 == nil) {
			t.Fatalf("%+v: not the same twice", d)
		}
	})
}
