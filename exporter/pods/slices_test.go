package pods

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/require"
)

const resourceSlices = `{"items":[
 {"spec":{"driver":"gpu.nvidia.com","nodeName":"node-1","pool":{"name":"node-1","generation":2},"devices":[
  {"name":"gpu-0","attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-a"}}},
  {"name":"gpu-1-mig-3g40gb-9-0","attributes":{"type":{"string":"mig"},"uuid":{"string":"MIG-1"},"parentUUID":{"string":"GPU-b"},"profile":{"string":"3g.40gb"}},
   "capacity":{"memorySlice0":{"value":"1"}}},
  {"name":"gpu-1-mig-1g10gb-19-5","attributes":{"type":{"string":"mig"},"parentUUID":{"string":"GPU-b"},"profile":{"string":"1g.10gb"}},
   "consumesCounters":[{"counterSet":"gpu-1-counter-set","counters":{"memory-slice-5":{"value":"1"},"multiprocessors":{"value":"16"}}}]},
  {"name":"gpu-vfio-2","attributes":{"type":{"string":"vfio"},"uuid":{"string":"GPU-c"}}},
  {"name":"nameless"}]}},
 {"spec":{"driver":"gpu.nvidia.com","pool":{"name":"node-1","generation":1},"devices":[{"name":"gpu-0","attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-old"}}}]}},
 {"spec":{"driver":"other.example.com","pool":{"name":"node-1","generation":9},"devices":[{"name":"gpu-0","attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-x"}}}]}}]}`

const betaSlices = `{"items":[{"spec":{"driver":"gpu.nvidia.com","pool":{"name":"p"},"devices":[
  {"name":"gpu-0","basic":{"attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-a"}}}},
  {"name":"gpu-0-mig","basic":{"attributes":{"type":{"string":"mig"},"parentUUID":{"string":"GPU-a"},"profile":{"string":"2g.20gb"}},"capacity":{"memorySlice2":{"value":"1"},"memorySlice3":{"value":"1"},"memory":{"value":"1"}}}}]}}]}`

func devicesOf(t *testing.T, text string) map[draName]Device {
	t.Helper()
	var list sliceList
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	return list.devices()
}

func TestResourceSlices(t *testing.T) {
	device := none()
	device.UUID = "GPU-a"
	made, planned := none(), none()
	made.InstanceUUID, made.Profile = "MIG-1", "3g.40gb"
	planned.UUID, planned.Profile, planned.Start, planned.Size = "GPU-b", "1g.10gb", 5, 1
	want := map[draName]Device{
		{nvidiaDriver, "node-1", "gpu-0"}:                 device,
		{nvidiaDriver, "node-1", "gpu-1-mig-3g40gb-9-0"}:  made,
		{nvidiaDriver, "node-1", "gpu-1-mig-1g10gb-19-5"}: planned,
	}
	if got := devicesOf(t, resourceSlices); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	beta := devicesOf(t, betaSlices)
	if d := beta[draName{nvidiaDriver, "p", "gpu-0-mig"}]; d.Start != 2 || d.Size != 2 || d.UUID != "GPU-a" {
		t.Errorf("v1beta1: %+v", d)
	}
}

// A claim of a MIG device is the instance's, never its GPU's.
func TestClaimsOfInstances(t *testing.T) {
	entities := []collect.Entity{
		{Kind: collect.GPU, GPU: 0, Index: 0, UUID: "GPU-a"},
		{Kind: collect.GPU, GPU: 1, Index: 1, UUID: "GPU-b", MIG: true},
		{Kind: collect.Instance, GPU: 1, Index: 1, UUID: "GPU-b", InstanceID: 1, InstanceUUID: "MIG-1", Profile: "3g.40gb", Start: 0, Size: 4},
		{Kind: collect.Instance, GPU: 1, Index: 1, UUID: "GPU-b", InstanceID: 11, InstanceUUID: "MIG-11", Profile: "1g.10gb", Start: 4, Size: 1},
		{Kind: collect.Instance, GPU: 1, Index: 1, UUID: "GPU-b", InstanceID: 12, InstanceUUID: "MIG-12", Profile: "1g.10gb", Start: 5, Size: 1},
	}
	allocation := collect.Allocation{Namespace: "n", Pod: "p", Container: "c"}
	claim := func(device string) Claim {
		return Claim{Allocation: allocation, DRA: collect.Claim{Name: "claim", Namespace: "n", Driver: nvidiaDriver, Pool: "node-1", Device: device}}
	}
	devices := devicesOf(t, resourceSlices)
	for device, want := range map[string]int{"gpu-0": 0, "gpu-1-mig-3g40gb-9-0": 2, "gpu-1-mig-1g10gb-19-5": 4} {
		a, unresolved := resolve(entities, []Claim{claim(device)}, devices)
		if len(unresolved) > 0 {
			t.Errorf("%s: unresolved %q", device, unresolved)
		}
		for i := range entities {
			if allocated := len(a.Allocations[i]) == 1; allocated != (i == want) {
				t.Errorf("%s: entity %d allocated: %v", device, i, allocated)
			}
		}
		if c := a.Allocations[want][0].Claim; c.Name != "claim" || c.Device != device || c.MIGUUID != entities[want].InstanceUUID || c.MIGProfile != entities[want].Profile {
			t.Errorf("%s: claim %+v", device, c)
		}
	}
	if _, unresolved := resolve(entities, []Claim{claim("gpu-7")}, devices); len(unresolved) != 1 || unresolved[0] != "gpu.nvidia.com/node-1/gpu-7" {
		t.Errorf("unresolved %q", unresolved)
	}
	// Where the driver does not report placements, two that could be meant are
	// not guessed between.
	for i := range entities {
		entities[i].Start, entities[i].Size = -1, 0
	}
	if _, unresolved := resolve(entities, []Claim{claim("gpu-1-mig-1g10gb-19-5")}, devices); len(unresolved) != 1 {
		t.Errorf("guessed: %q", unresolved)
	}
}

func FuzzResourceSlices(f *testing.F) {
	f.Add([]byte(resourceSlices))
	f.Add([]byte(betaSlices))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list sliceList
		if json.Unmarshal(data, &list) != nil {
			return
		}
		for name, d := range list.devices() {
			if name.driver != nvidiaDriver || d.UUID == "" && d.InstanceUUID == "" || d.Instance != -1 {
				t.Fatalf("%+v: %+v", name, d)
			}
		}
	})
}
