package pods

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/require"
)

//go:embed testdata/slices.json
var resourceSlices string

//go:embed testdata/slices-v1beta1.json
var betaSlices string

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

// A claim of a MIG device is attributed to the instance, never to its GPU.
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
		a, unresolved := Resolve(entities, []Claim{claim(device)}, devices)
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
	if _, unresolved := Resolve(entities, []Claim{claim("gpu-7")}, devices); len(unresolved) != 1 || unresolved[0] != "gpu.nvidia.com/node-1/gpu-7" {
		t.Errorf("unresolved %q", unresolved)
	}
	// Where the driver does not report placements, and two instances fit, neither is chosen.
	for i := range entities {
		entities[i].Start, entities[i].Size = -1, 0
	}
	if _, unresolved := Resolve(entities, []Claim{claim("gpu-1-mig-1g10gb-19-5")}, devices); len(unresolved) != 1 {
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
