package pods

import (
	"reflect"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

func TestParseDevice(t *testing.T) {
	whole := func(d Device) Device { d.Minor, d.Instance = -1, -1; return d }
	for id, want := range map[string]Device{
		"GPU-5a1f-1":            whole(Device{UUID: "GPU-5a1f-1"}),
		"GPU-5a1f-1::3":         whole(Device{UUID: "GPU-5a1f-1", Replica: "3"}),
		"MIG-77-cc":             whole(Device{InstanceUUID: "MIG-77-cc"}),
		"MIG-77-cc::0":          whole(Device{InstanceUUID: "MIG-77-cc", Replica: "0"}),
		"MIG-GPU-5a1f-1/9/0":    {UUID: "GPU-5a1f-1", Minor: -1, Instance: 9},
		"nvidia0":               {Minor: 0, Instance: -1},
		"nvidia12/vgpu3":        {Minor: 12, Instance: -1, Replica: "vgpu3"},
		"nvidia2/gi5":           {Minor: 2, Instance: 5},
		"nvidia2/gi5/vgpu0":     {Minor: 2, Instance: 5, Replica: "vgpu0"},
		"MIG-GPU-5a1f-1/9/0::1": {UUID: "GPU-5a1f-1", Minor: -1, Instance: 9, Replica: "1"},
	} {
		if got, err := ParseDevice(id); err != nil || got != want {
			t.Errorf("ParseDevice(%q) = %+v, %v; want %+v", id, got, err, want)
		}
	}
	for _, id := range []string{"", "GPU-", "GPU-a::", "MIG-", "MIG-GPU-a", "MIG-GPU-a/1", "MIG-GPU-/1/0", "MIG-GPU-a/x/0", "nvidia", "nvidiactl",
		"nvidia-1", "nvidia0/5", "nvidia0/gi", "nvidia0/gi5/vgpu", "nvidia99999999", "0", "gpu0", "GPU-a/1"} {
		if got, err := ParseDevice(id); err == nil {
			t.Errorf("ParseDevice(%q) = %+v, want an error", id, got)
		}
	}
}

func FuzzParseDevice(f *testing.F) {
	for _, id := range []string{"GPU-a::3", "MIG-GPU-a/1/0", "nvidia0/gi1/vgpu2", "MIG-a"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		d, err := ParseDevice(id)
		if err != nil {
			return
		}
		ways := 0
		for _, set := range []bool{d.UUID != "", d.InstanceUUID != "", d.Minor >= 0} {
			if set {
				ways++
			}
		}
		if ways != 1 || d.Minor < -1 || d.Instance < -1 || d.InstanceUUID != "" && d.Instance >= 0 {
			t.Fatalf("%q: %+v", id, d)
		}
	})
}

func TestResolve(t *testing.T) {
	entities := []collect.Entity{
		{Kind: collect.GPU, GPU: 0, UUID: "GPU-a", Minor: 1}, // minor numbers need not follow the index
		{Kind: collect.Instance, GPU: 0, UUID: "GPU-a", Minor: 1, InstanceID: 7, InstanceUUID: "MIG-7"},
		{Kind: collect.Instance, GPU: 0, UUID: "GPU-a", Minor: 1, InstanceID: 8}, // UUID not known
		{Kind: collect.GPU, GPU: 1, UUID: "GPU-b", Minor: 0},
	}
	p, q := collect.Holder{Namespace: "n", Pod: "p", Container: "c"}, collect.Holder{Namespace: "n", Pod: "q", Container: "c"}
	holders, unresolved := Resolve(entities, []Claim{
		{DeviceID: "GPU-b::1", Holder: q}, {DeviceID: "GPU-b::0", Holder: p}, {DeviceID: "GPU-b::2", Holder: p},
		{DeviceID: "MIG-7", Holder: p}, {DeviceID: "nvidia1/gi8", Holder: q},
		{DeviceID: "MIG-gone", Holder: p}, {DeviceID: "MIG-GPU-a/9/0", Holder: p}, {DeviceID: "rdma0", Holder: p},
	})
	if want := [][]collect.Holder{nil, {p}, {q}, {p, q}}; !reflect.DeepEqual(holders, want) {
		t.Errorf("holders = %v, want %v", holders, want)
	}
	if want := []string{"MIG-gone", "MIG-GPU-a/9/0", "rdma0"}; !reflect.DeepEqual(unresolved, want) {
		t.Errorf("unresolved = %q, want %q", unresolved, want)
	}
}
