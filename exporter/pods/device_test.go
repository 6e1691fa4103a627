package pods

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// none is a Device that names nothing.
func none() Device { return Device{Minor: -1, Index: -1, Instance: -1, Start: -1} }

func TestParseDevice(t *testing.T) {
	for id, want := range map[string]func(*Device){
		"GPU-5a1f-1":            func(d *Device) { d.UUID = "GPU-5a1f-1" },
		"GPU-5a1f-1::3":         func(d *Device) { d.UUID, d.Replica = "GPU-5a1f-1", "3" },
		"MIG-77-cc":             func(d *Device) { d.InstanceUUID = "MIG-77-cc" },
		"MIG-77-cc::0":          func(d *Device) { d.InstanceUUID, d.Replica = "MIG-77-cc", "0" },
		"MIG-GPU-5a1f-1/9/0":    func(d *Device) { d.UUID, d.Instance = "GPU-5a1f-1", 9 },
		"MIG-GPU-5a1f-1/9/0::1": func(d *Device) { d.UUID, d.Instance, d.Replica = "GPU-5a1f-1", 9, "1" },
		"nvidia0":               func(d *Device) { d.Minor = 0 },
		"nvidia12/vgpu3":        func(d *Device) { d.Minor, d.Replica = 12, "3" },
		"nvidia2/gi5":           func(d *Device) { d.Minor, d.Instance = 2, 5 },
		"nvidia2/gi5/vgpu0":     func(d *Device) { d.Minor, d.Instance, d.Replica = 2, 5, "0" },
		"3":                     func(d *Device) { d.Index = 3 },
		"3::1":                  func(d *Device) { d.Index, d.Replica = 3, "1" },
	} {
		d := none()
		want(&d)
		if got, known := parseDevice(id); !known || got != d {
			t.Errorf("ParseDevice(%q) = %+v, %v; want %+v", id, got, known, d)
		}
	}
	for _, id := range []string{"", "GPU-", "GPU-a::", "MIG-", "MIG-GPU-a", "MIG-GPU-a/1", "MIG-GPU-/1/0", "MIG-GPU-a/x/0", "nvidia", "nvidiactl",
		"nvidia-1", "nvidia0/5", "nvidia0/gi", "nvidia0/gi5/vgpu", "nvidia99999999", "-1", "0:1", "+0", "gpu0", "GPU-a/1", "allgpu", "all/1"} {
		if got, known := parseDevice(id); known {
			t.Errorf("ParseDevice(%q) = %+v", id, got)
		}
	}
}

func FuzzDeviceID(f *testing.F) {
	for _, id := range []string{"GPU-a::3", "MIG-GPU-a/1/0", "nvidia0/gi1/vgpu2", "MIG-a", "7", "7::1", "all"} {
		f.Add(id)
	}
	entities := []collect.Entity{
		{Kind: collect.GPU, UUID: "GPU-a"}, {Kind: collect.GPU, GPU: 1, Index: 1, UUID: "GPU-b", Minor: 1},
		{Kind: collect.Instance, GPU: 1, Index: 1, UUID: "GPU-b", Minor: 1, InstanceID: 1, InstanceUUID: "MIG-a"},
	}
	f.Fuzz(func(t *testing.T, id string) {
		d, known := parseDevice(id)
		if !known {
			return
		}
		ways := 0
		for _, set := range []bool{d.All, d.UUID != "", d.InstanceUUID != "", d.Minor >= 0, d.Index >= 0} {
			if set {
				ways++
			}
		}
		if ways != 1 || d.Minor < -1 || d.Instance < -1 || d.InstanceUUID != "" && d.Instance >= 0 {
			t.Fatalf("%q: %+v", id, d)
		}
		for _, i := range d.find(entities) {
			if (d.Instance >= 0 || d.InstanceUUID != "") != (entities[i].Kind == collect.Instance) {
				t.Fatalf("%q names %+v", id, entities[i])
			}
		}
	})
}

func TestResolve(t *testing.T) {
	entities := []collect.Entity{
		{Kind: collect.GPU, GPU: 0, Index: 0, UUID: "GPU-a", Minor: 1}, // minor numbers need not follow the index
		{Kind: collect.Instance, GPU: 0, Index: 0, UUID: "GPU-a", Minor: 1, InstanceID: 7, InstanceUUID: "MIG-7"},
		{Kind: collect.Instance, GPU: 0, Index: 0, UUID: "GPU-a", Minor: 1, InstanceID: 8}, // UUID not known
		{Kind: collect.GPU, GPU: 1, Index: 1, UUID: "GPU-b", Minor: 0},
		{Kind: collect.GPU, GPU: 2, Index: 2, UUID: "GPU-c", Minor: 2},
	}
	p, q := collect.Allocation{Namespace: "n", Pod: "p", Container: "c"}, collect.Allocation{Namespace: "n", Pod: "q", Container: "c"}
	claims := []Claim{
		{DeviceID: "GPU-b::1", Allocation: q}, {DeviceID: "GPU-b::10", Allocation: p}, {DeviceID: "GPU-b::2", Allocation: p},
		{DeviceID: "MIG-7", Allocation: p}, {DeviceID: "nvidia1/gi8", Allocation: q}, {DeviceID: "2", Allocation: p},
		{DeviceID: "MIG-gone", Allocation: p}, {DeviceID: "MIG-GPU-a/9/0", Allocation: p}, {DeviceID: "rdma0", Allocation: p},
	}
	a, unresolved := Resolve(entities, claims, nil)
	only := func(h collect.Allocation, shares ...string) collect.Allocated {
		return collect.Allocated{Allocation: h, Shares: shares}
	}
	if want := [][]collect.Allocated{nil, {only(p)}, {only(q)}, {only(p, "2", "10"), only(q, "1")}, {only(p)}}; !reflect.DeepEqual(a.Allocations, want) {
		t.Errorf("allocations = %v, want %v", a.Allocations, want)
	}
	if want := []string{"MIG-gone", "MIG-GPU-a/9/0", "rdma0"}; !reflect.DeepEqual(unresolved, want) {
		t.Errorf("unresolved = %q, want %q", unresolved, want)
	}
}

// A MIG device is any compute instance of its GPU instance, and an index is the driver's, whatever the source's number
// of the GPU.
func TestDevicesAsTheDriverHasThem(t *testing.T) {
	entities := []collect.Entity{
		{Kind: collect.GPU, GPU: 0, Index: 1, UUID: "GPU-a"}, {Kind: collect.GPU, GPU: 1, Index: 0, UUID: "GPU-b"},
		{Kind: collect.Instance, GPU: 1, UUID: "GPU-b", InstanceID: 3, InstanceUUID: "MIG-1", MIGDevices: []string{"MIG-1", "MIG-2"}},
	}
	for id, want := range map[string][]int{"0": {1}, "1": {0}, "MIG-1": {2}, "MIG-2": {2}, "MIG-3": nil, "all": {0, 1}, "all::1": {0, 1}} {
		if d, known := parseDevice(id); !known || !slices.Equal(d.find(entities), want) {
			t.Errorf("%s is entities %d, want %d", id, d.find(entities), want)
		}
	}
}
