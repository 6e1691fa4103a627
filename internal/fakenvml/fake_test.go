//go:build cgo

package fakenvml

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

func h100() mig.Spec {
	table, _ := mig.ForModel("H100-80GB")
	return table.Spec()
}

var ofMIG = regexp.MustCompile(`^MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func place(t *testing.T, text string) mig.Placement {
	t.Helper()
	table, _ := mig.ForModel("H100-80GB")
	l, err := mig.ParseLayout(table, text)
	require.NoError(t, err)
	return l[0]
}

// loaded is the library over a state.
func loaded(t *testing.T, s State) (driver nvml.Interface, path string) {
	t.Helper()
	lib, err := Build(t.Context(), "")
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "state")
	require.NoError(t, s.Write(path))
	t.Setenv(EnvState, path)
	driver = nvml.New(nvml.WithLibraryPath(filepath.Join(lib, Library)))
	if ret := driver.Init(); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	t.Cleanup(func() { _ = driver.Shutdown() })
	return driver, path
}

func gpuAt(t *testing.T, driver nvml.Interface, i int) nvml.Device {
	t.Helper()
	d, ret := driver.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	return d
}

// TestRead: what is written is read, instances with several compute instances included.
func TestRead(t *testing.T) {
	s := State{Driver: "580.159.03", Changes: 3, GPUs: []GPU{{
		UUID: GPUUUID(0), Name: "NVIDIA H100 80GB HBM3", MemoryMiB: 81559, Spec: h100(), MIG: true, Pending: true, XIDs: []XID{{Code: 31, On: "1/0"}},
		Instances: []Instance{
			{ID: 1, Placement: place(t, "3g.40gb@0"), Values: Busy(7), Computes: []Compute{{ID: 0, Slices: 1, UUID: MIGUUID(0, 0)}, {ID: 1, Start: 1, Slices: 2, UUID: MIGUUID(0, 1)}}},
			{ID: 9, Placement: place(t, "1g.10gb@4"), Computes: Whole(MIGUUID(0, 2))},
			{ID: 10, Placement: place(t, "1g.10gb@5")},
		},
	}}}
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, s.Write(path))
	if got, err := Read(path); err != nil || !reflect.DeepEqual(got, s.complete()) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, s)
	}
}

// TestComputeInstances: compute instances share the slices of their GPU instance, are MIG devices with UUIDs of their
// own, and prevent the GPU instance from being destroyed.
func TestComputeInstances(t *testing.T) {
	s := State{GPUs: []GPU{{UUID: GPUUUID(0), Name: "NVIDIA H100", MemoryMiB: 81559, Spec: h100(), MIG: true}}}
	driver, path := loaded(t, s)
	d := gpuAt(t, driver, 0)
	profile, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_3_SLICE)
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	gi, ret := d.CreateGpuInstance(&profile)
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	for _, step := range []struct {
		slices int // NVML's number of the profile is one less
		want   nvml.Return
	}{{3, nvml.SUCCESS}, {1, nvml.ERROR_INSUFFICIENT_RESOURCES}, {0, nvml.SUCCESS}, {2, nvml.SUCCESS}, {1, nvml.SUCCESS}, {1, nvml.ERROR_INSUFFICIENT_RESOURCES}} {
		if step.slices == 0 { // all are destroyed
			if ret := gi.Destroy(); ret != nvml.ERROR_IN_USE {
				t.Errorf("destroyed with a compute instance: %v", ret)
			}
			ci, ret := gi.GetComputeInstanceById(0)
			if ret == nvml.SUCCESS {
				ret = ci.Destroy()
			}
			if ret != nvml.SUCCESS {
				t.Fatal(ret)
			}
			continue
		}
		info, ret := gi.GetComputeInstanceProfileInfo(step.slices-1, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		if _, ret := gi.CreateComputeInstance(&info); ret != step.want {
			t.Errorf("%d slices: %v, want %v", step.slices, ret, step.want)
		}
	}
	names := map[string]string{}
	for i := range 2 {
		m, ret := d.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		uuid, _ := m.GetUUID()
		name, _ := m.GetName()
		names[name] = uuid
		if again, ret := driver.DeviceGetHandleByUUID(uuid); ret != nvml.SUCCESS || again != m || !ofMIG.MatchString(uuid) {
			t.Errorf("by %s: %v", uuid, ret)
		}
	}
	if len(names) != 2 || names["NVIDIA H100 MIG 2c.3g.40gb"] == names["NVIDIA H100 MIG 1c.3g.40gb"] {
		t.Errorf("MIG devices %v", names)
	}
	now, err := Read(path)
	require.NoError(t, err)
	if c := now.GPUs[0]; now.Changes != 5 || len(c.Instances) != 1 || c.Instances[0].ID != 2 || len(c.Instances[0].Computes) != 2 {
		t.Errorf("%d changes, %+v", now.Changes, c.Instances)
	}
}

// TestEvents: an XID names its GPU instance and compute instance, or neither. A change of the MIG mode or of instances
// is an event.
func TestEvents(t *testing.T) {
	s := State{GPUs: []GPU{{UUID: GPUUUID(0), Spec: h100(), XIDs: XIDs(13)}}}
	driver, path := loaded(t, s)
	set, ret := driver.EventSetCreate()
	for _, types := range []uint64{nvml.EventTypeXidCriticalError, nvml.EventMigConfigChange} {
		if ret == nvml.SUCCESS {
			ret = gpuAt(t, driver, 0).RegisterEvents(types, set)
		}
	}
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	s.GPUs[0].MIG, s.GPUs[0].XIDs = true, []XID{{Code: 13}, {Code: 31, On: "2/1"}, {Code: 79}}
	require.NoError(t, s.Write(path))
	const none = 0xffffffff
	for _, want := range []nvml.EventData{
		{EventType: nvml.EventTypeXidCriticalError, EventData: 31, GpuInstanceId: 2, ComputeInstanceId: 1},
		{EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: none, ComputeInstanceId: none},
		{EventType: nvml.EventMigConfigChange, GpuInstanceId: none, ComputeInstanceId: none},
	} {
		e, ret := set.Wait(0)
		if e.Device = nil; ret != nvml.SUCCESS || e != want {
			t.Errorf("%v %+v, want %+v", ret, e, want)
		}
	}
	if _, ret := set.Wait(20); ret != nvml.ERROR_TIMEOUT {
		t.Errorf("a fourth event: %v", ret)
	}
}

// TestDriversNumbers: profiles have the driver's numbers, not NVML's indexes. Instances that are made without a
// placement are where the driver makes them, under its ids, as nvidia-smi mig -lgip, -cgi and -lgi print them in
// NVIDIA's MIG user guide and in transcripts of A30, A100, H100 and RTX PRO 6000.
func TestDriversNumbers(t *testing.T) {
	for _, c := range []struct {
		product  string
		profiles map[int]uint32 // NVML's index → the driver's number
		create   []uint32
		made     string // id@start
	}{
		{"A30-24GB", map[int]uint32{0: 14, 7: 21, 1: 5, 8: 6, 3: 0}, []uint32{14}, "3@0"},
		{"A100-40GB", map[int]uint32{0: 19, 7: 20, 9: 15, 1: 14, 2: 9, 3: 5, 4: 0}, []uint32{9, 19, 14, 19}, "2@4 7@0 4@2 8@1"},
		{"A100-40GB", nil, []uint32{14, 19, 19, 19, 19, 19}, "5@4 13@6 7@0 8@1 9@2 10@3"},
		{"A100-40GB", nil, []uint32{19, 14, 5}, "13@6 5@4 1@0"},
		{"A100-40GB", nil, []uint32{19, 9}, "13@6 1@0"},
		{"H100-80GB", nil, []uint32{9, 14}, "2@4 3@0"},
		{"RTX-PRO-6000-Blackwell-96GB", map[int]uint32{0: 14, 7: 21, 10: 47, 15: 65, 13: 67, 1: 5, 11: 35, 16: 64, 14: 66, 3: 0, 12: 32}, []uint32{14, 14, 14, 14}, "3@0 4@3 5@6 6@9"},
		{"RTX-PRO-6000-Blackwell-96GB", nil, []uint32{5, 14, 14}, "1@0 5@6 6@9"},
	} {
		g, err := Product(0, c.product, "")
		require.NoError(t, err)
		driver, _ := loaded(t, State{GPUs: []GPU{g}})
		d := gpuAt(t, driver, 0)
		numbers := map[int]uint32{}
		for i := range nvml.GPU_INSTANCE_PROFILE_COUNT {
			if info, ret := d.GetGpuInstanceProfileInfo(i); ret == nvml.SUCCESS {
				numbers[i] = info.Id
			}
		}
		if c.profiles != nil && !reflect.DeepEqual(numbers, c.profiles) {
			t.Errorf("%s: profiles %v, want %v", c.product, numbers, c.profiles)
		}
		made := ""
		for _, number := range c.create {
			gi, ret := d.CreateGpuInstance(&nvml.GpuInstanceProfileInfo{Id: number})
			if ret != nvml.SUCCESS {
				t.Fatal(c.product, number, ret)
			}
			info, ret := gi.GetInfo()
			if ret != nvml.SUCCESS || info.ProfileId != number {
				t.Errorf("%s: made %d, is %d: %v", c.product, number, info.ProfileId, ret)
			}
			made += fmt.Sprintf(" %d@%d", info.Id, info.Placement.Start)
		}
		if made = strings.TrimSpace(made); made != c.made {
			t.Errorf("%s: %v made %q, want %q", c.product, c.create, made, c.made)
		}
	}
}
