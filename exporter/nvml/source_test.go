package nvml

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// envAlone marks the test binary's process of one test.
const envAlone = "GPUSCALE_TEST_ALONE"

func valuesOf(e collect.Entity) map[uint16]float64 {
	out := map[uint16]float64{}
	for _, v := range e.Values {
		out[v.Field] = v.Number
	}
	return out
}

func TestGPU(t *testing.T) {
	s, _ := watching(t, fakenvml.State{Driver: "580.65.06", GPUs: []fakenvml.GPU{h100(0)}}, 100, 101, 112, 140, 150, 155, 156, 202, 203, 204, 206, 230, 240, 241, 250, 251, 252, 253, 254, 312, 311, 390, 393, 394, 395, 396)
	r := read(t, s)
	if len(r.Entities) != 1 {
		t.Fatalf("%d entities", len(r.Entities))
	}
	e := r.Entities[0]
	if e.UUID != fakenvml.GPUUUID(0) || e.Model != "NVIDIA H100 80GB HBM3" || e.PCIBusID != "00000000:01:00.0" || e.Minor != 7 ||
		e.DriverVersion != "580.65.06" || e.GPUMaxCompute != 0 || e.MIG || e.Lost {
		t.Errorf("identity %+v", e)
	}
	// In DCGM's units: MHz, watts, mJ, percent, ns, MiB.
	want := map[uint16]float64{
		100: 1980, 112: 4, 140: 51, 150: 44, 155: 321.5, 156: 2_000_000, 202: 5, 203: 37, 204: 12, 240: 1500,
		250: 81559, 251: 81559 - 4096 - 512, 252: 4096, 253: 512, 254: 4096.0 / (81559 - 512),
		312: 3, 311: 4, 393: 2, 394: 1, 395: 1, 396: 0,
	}
	if got := valuesOf(e); !maps.Equal(got, want) {
		t.Errorf("values %v\nwant   %v", got, want)
	}
	if !slices.IsSortedFunc(e.Values, func(a, b collect.Value) int { return int(a.Field) - int(b.Field) }) {
		t.Error("the values are not sorted by field")
	}
	if r.Dropped[collect.DropNotSupported] != 4 { // 101, 206, 241, 390
		t.Errorf("dropped %v", r.Dropped)
	}
}

func TestImpossibleValuesAreLeftOut(t *testing.T) {
	c := h100(0)
	c.Values["util"] = "808334905 12"
	c.Values["power"] = "4294967295"
	o, _ := machine(t, fakenvml.State{GPUs: []fakenvml.GPU{c}})
	r := read(t, opened(t, o, 155, 203, 204))
	if got := valuesOf(r.Entities[0]); !maps.Equal(got, map[uint16]float64{204: 12}) || r.Dropped[collect.DropImpossible] != 2 {
		t.Errorf("values %v, dropped %v", got, r.Dropped)
	}
}

func TestInstances(t *testing.T) {
	s, set := watching(t, fakenvml.State{GPUs: []fakenvml.GPU{repartitionGPU(0), h100(1)}}, 155, 203, 252)
	r := read(t, s)
	if len(r.Entities) != 4 {
		t.Fatalf("%d entities: %+v", len(r.Entities), r.Entities)
	}
	dev, three, one := r.Entities[0], r.Entities[1], r.Entities[2]
	if !dev.MIG || dev.Kind != collect.GPU || r.Entities[3].UUID != fakenvml.GPUUUID(1) {
		t.Errorf("GPUs %+v, %+v", dev, r.Entities[3])
	}
	if got := valuesOf(dev); !maps.Equal(got, map[uint16]float64{155: 321.5, 252: 4096}) {
		t.Errorf("the GPU has %v: no utilization when it is repartitioned", got)
	}
	for i, want := range []collect.Entity{
		{InstanceID: 1, InstanceUUID: fakenvml.MIGUUID(0, 1), Profile: "3g.40gb", Start: 0, Size: 4, ComputeSlices: 3},
		{InstanceID: 9, InstanceUUID: fakenvml.MIGUUID(0, 9), Profile: "1g.10gb", Start: 4, Size: 1, ComputeSlices: 1},
	} {
		got := r.Entities[1+i]
		if got.Kind != collect.Instance || got.UUID != dev.UUID || got.InstanceID != want.InstanceID || got.InstanceUUID != want.InstanceUUID ||
			got.Profile != want.Profile || got.Start != want.Start || got.Size != want.Size || got.ComputeSlices != want.ComputeSlices || got.GPUMaxCompute != 7 {
			t.Errorf("instance %+v\nwant %+v", got, want)
		}
	}
	if a, b := valuesOf(three), valuesOf(one); !maps.Equal(a, map[uint16]float64{252: 2}) || !maps.Equal(b, map[uint16]float64{252: 1}) {
		t.Errorf("instances have %v and %v", a, b)
	}

	// The layout changes, and placement needs rights that are missing now.
	c := repartitionGPU(0)
	c.Instances = []fakenvml.Instance{{ID: 0, Placement: at(0, 7, 8), Computes: fakenvml.Whole(fakenvml.MIGUUID(0, 77))}}
	c.Values["instances"] = "!4"
	set(fakenvml.State{GPUs: []fakenvml.GPU{c}})
	r = read(t, s)
	if len(r.Entities) != 2 || r.Entities[1].InstanceUUID != fakenvml.MIGUUID(0, 77) || r.Entities[1].Start != -1 || r.Entities[1].Size != 0 {
		t.Errorf("after the change: %+v", r.Entities)
	}
}

// A GPU that comes into MIG mode has its slices from then on.
func TestMIGModeLater(t *testing.T) {
	s, set := watching(t, fakenvml.State{GPUs: []fakenvml.GPU{h100(0)}}, 155)
	read(t, s)
	set(fakenvml.State{GPUs: []fakenvml.GPU{repartitionGPU(0)}})
	for _, e := range read(t, s).Entities {
		if !e.MIG || e.GPUMaxCompute != 7 {
			t.Errorf("%+v", e)
		}
	}
}

func TestProfilingBetweenTwoReads(t *testing.T) {
	s, _ := watching(t, fakenvml.State{GPUs: []fakenvml.GPU{h100(0), repartitionGPU(1)}}, 1001, 1004, 1009)
	r := read(t, s)
	if n := len(r.Entities[0].Values) + len(r.Entities[2].Values); n != 0 || r.Dropped[collect.DropBlank] == 0 {
		t.Errorf("%d values out of one sample, dropped %v", n, r.Dropped)
	}
	r = read(t, s)
	if got := valuesOf(r.Entities[0]); !maps.Equal(got, map[uint16]float64{1001: 0.75, 1009: 2 << 20}) {
		t.Errorf("GPU %v", got)
	}
	if got := valuesOf(r.Entities[2]); !maps.Equal(got, map[uint16]float64{1001: 0.25}) {
		t.Errorf("instance %v", got)
	}
	if len(s.gpm.before) != 3 { // a partitioned GPU itself cannot be sampled
		t.Errorf("%d samples kept", len(s.gpm.before))
	}
}

func TestSamplesOfGoneInstancesAreFreed(t *testing.T) {
	s, set := watching(t, fakenvml.State{GPUs: []fakenvml.GPU{repartitionGPU(0)}}, 1001)
	read(t, s)
	c := repartitionGPU(0)
	c.Instances = c.Instances[:1]
	set(fakenvml.State{GPUs: []fakenvml.GPU{c}})
	read(t, s)
	if len(s.gpm.before) != 1 {
		t.Errorf("%d samples kept of 1 instance", len(s.gpm.before))
	}
}

func xids(e collect.Entity) map[int64]int {
	out := map[int64]int{}
	for _, x := range e.Events.XIDs {
		out[x.Code] = x.Total
	}
	return out
}

func TestXIDsCountOnce(t *testing.T) {
	c := h100(0)
	c.XIDs = fakenvml.XIDs(13) // before the subscription: its time is unknown
	state := fakenvml.State{GPUs: []fakenvml.GPU{c, h100(1)}}
	s, set := watching(t, state, 230)
	if r := read(t, s); valuesOf(r.Entities[0])[230] != 0 || len(xids(r.Entities[0])) != 0 {
		t.Errorf("an old XID is reported as new: %+v", r.Entities[0])
	}
	state.GPUs[0].XIDs = fakenvml.XIDs(13, 31, 31, 94)
	set(state)
	for range 3 {
		r := read(t, s)
		if got := xids(r.Entities[0]); !maps.Equal(got, map[int64]int{31: 2, 94: 1}) {
			t.Errorf("counted %v", got)
		}
		if got := valuesOf(r.Entities[0])[230]; got != 94 {
			t.Errorf("last XID %v", got)
		}
		if len(xids(r.Entities[1])) != 0 {
			t.Error("another GPU's XID")
		}
	}
	// Letting go and coming back loses no count and adds none.
	if err := s.Quiesce(nil); err != nil {
		t.Fatal(err)
	}
	if got := xids(read(t, s).Entities[0]); !maps.Equal(got, map[int64]int{31: 2, 94: 1}) {
		t.Errorf("after reopening %v", got)
	}
}

func TestLostGPU(t *testing.T) {
	state := fakenvml.State{GPUs: []fakenvml.GPU{h100(0), h100(1)}}
	s, set := watching(t, state, 155, 230)
	read(t, s)
	state.GPUs[0].Lost, state.GPUs[0].XIDs = true, fakenvml.XIDs(79)
	set(state)
	r := read(t, s)
	if len(r.Entities) != 2 {
		t.Fatalf("%d entities", len(r.Entities))
	}
	lost, other := r.Entities[0], r.Entities[1]
	if !lost.Lost || lost.UUID != fakenvml.GPUUUID(0) || !maps.Equal(valuesOf(lost), map[uint16]float64{230: 79}) || !maps.Equal(xids(lost), map[int64]int{79: 1}) {
		t.Errorf("lost GPU %+v", lost)
	}
	if other.Lost || valuesOf(other)[155] != 321.5 || r.Dropped[collect.DropError] == 0 {
		t.Errorf("the other GPU %+v, dropped %v", other, r.Dropped)
	}
	state.GPUs[1].XIDs = fakenvml.XIDs(31) // the lost one keeps no event of the others back
	set(state)
	if got := xids(read(t, s).Entities[1]); !maps.Equal(got, map[int64]int{31: 1}) {
		t.Errorf("beside the lost GPU %v", got)
	}
	state.GPUs[0].Lost = false
	set(state)
	if back := read(t, s).Entities[0]; back.Lost || back.Events.Returned.IsZero() || valuesOf(back)[155] != 321.5 {
		t.Errorf("the GPU came back as %+v", back)
	}
}

// One GPU is away for a while, so that the other has its place, and comes back lost: the other
// is there once, and well.
func TestAGPUThatMoves(t *testing.T) {
	state := fakenvml.State{GPUs: []fakenvml.GPU{h100(0), h100(1)}}
	s, set := watching(t, state, 155)
	read(t, s)
	set(fakenvml.State{GPUs: state.GPUs[1:]})
	read(t, s)
	state.GPUs[0].Lost = true
	set(state)
	for range 2 {
		r := read(t, s)
		if len(r.Entities) != 1 || r.Entities[0].UUID != fakenvml.GPUUUID(1) || r.Entities[0].Index != 1 || r.Entities[0].Lost || r.Dropped[collect.DropError] == 0 {
			t.Errorf("%+v, dropped %v", r.Entities, r.Dropped)
		}
	}
}

func TestDriverNotLoaded(t *testing.T) {
	s, set := watching(t, fakenvml.State{Init: 9}, 155)
	if _, err := s.Read(); err == nil || err.Error() != "initialising NVML: the NVIDIA driver is not loaded" {
		t.Errorf("err = %v", err)
	}
	set(fakenvml.State{GPUs: []fakenvml.GPU{h100(0)}})
	if r := read(t, s); len(r.Entities) != 1 {
		t.Errorf("%+v", r.Entities)
	}
}

// A GPU that is asked for before it is known stays out of the first reading too.
func TestQuiesce(t *testing.T) {
	s, _ := watching(t, fakenvml.State{GPUs: []fakenvml.GPU{repartitionGPU(0), h100(1)}}, 155)
	for range 2 {
		if err := s.Quiesce([]string{fakenvml.GPUUUID(0)}); err != nil {
			t.Fatal(err)
		}
		if s.lib != nil {
			t.Error("handles are allocated")
		}
		for range 2 {
			if r := read(t, s); len(r.Entities) != 1 || r.Entities[0].UUID != fakenvml.GPUUUID(1) {
				t.Errorf("%+v", r.Entities)
			}
		}
		if err := s.Quiesce(nil); err != nil {
			t.Fatal(err)
		}
		if r := read(t, s); len(r.Entities) != 4 {
			t.Errorf("not reacquired: %+v", r.Entities)
		}
	}
}

// An older library lacks functions; calling one would end the process. What a
// process has loaded once answers for every test after it, so this library gets
// a process of its own.
func TestMissingSymbols(t *testing.T) {
	if os.Getenv(envAlone) == "" {
		alone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMissingSymbols$", "-test.v")
		alone.Env = append(os.Environ(), envAlone+"=1")
		if out, err := alone.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("TestMissingSymbols")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	o, _ := machine(t, fakenvml.State{GPUs: []fakenvml.GPU{h100(0)}})
	lib, err := fakenvml.Build(t.Context(), "", "-DnvmlDeviceGetRemappedRows=gone_a", "-DnvmlEventSetCreate=gone_b", "-DnvmlGpmSampleAlloc=gone_c")
	if err != nil {
		t.Fatal(err)
	}
	o.LibraryPath = filepath.Join(lib, fakenvml.Library)
	s := opened(t, o, 155, 230, 393, 394, 395, 396, 1001)
	r := read(t, s)
	if got := valuesOf(r.Entities[0]); !maps.Equal(got, map[uint16]float64{155: 321.5}) || r.Dropped[collect.DropNotSupported] != 5 {
		t.Errorf("values %v, dropped %v", got, r.Dropped)
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := New(Options{LibraryPath: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")}); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("err = %v", err)
	}
	if _, err := NewProcesses(Options{LibraryPath: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")}); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("err = %v", err)
	}
}

func TestFieldsAreDistinct(t *testing.T) {
	fields := Fields()
	if again := slices.Compact(slices.Clone(fields)); len(again) != len(fields) || !slices.IsSorted(fields) {
		t.Errorf("twice or not sorted: %v", fields)
	}
}

// Driver r545 gives the memory temperature as an integer and says that it is a double. Memory
// is in whole MiB, as in DCGM.
func TestNumbersAsDCGMHasThem(t *testing.T) {
	c := h100(0)
	c.Values["fieldtype.82"] = "0"
	c.Values["memory"] = "41900000000 41900000000 1048575"
	o, _ := machine(t, fakenvml.State{GPUs: []fakenvml.GPU{c}})
	got := valuesOf(read(t, opened(t, o, 140, 250, 252, 253)).Entities[0])
	if !maps.Equal(got, map[uint16]float64{140: 51, 250: 39958, 252: 39958, 253: 0}) {
		t.Errorf("values %v", got)
	}
}

func reasons(r *collect.Reading) (out []string) {
	for _, h := range collect.Health(r) {
		out = append(out, h.Reason)
	}
	return out
}

// A GPU that was released may have been reset. One that was not, and had an XID, is as it was.
func TestHealthReturnsAfterARelease(t *testing.T) {
	state := fakenvml.State{GPUs: []fakenvml.GPU{h100(0), h100(1)}}
	s, set := watching(t, state, 155, 230)
	if got := reasons(read(t, s)); !slices.Equal(got, []string{"ok", "ok"}) {
		t.Fatalf("at first %q", got)
	}
	state.GPUs[0].XIDs, state.GPUs[1].XIDs = fakenvml.XIDs(48), fakenvml.XIDs(48)
	set(state)
	if got := reasons(read(t, s)); !slices.Equal(got, []string{"xid_48", "xid_48"}) {
		t.Fatalf("after the XIDs %q", got)
	}
	for _, gpus := range [][]string{{fakenvml.GPUUUID(0)}, nil} {
		if err := s.Quiesce(gpus); err != nil {
			t.Fatal(err)
		}
		read(t, s)
	}
	if got := reasons(read(t, s)); !slices.Equal(got, []string{"ok", "xid_48"}) {
		t.Errorf("after the reset %q", got)
	}
	state.GPUs[0].Values["field.230"] = "1" // the driver says that it still has to be
	set(state)
	s.Watch([]uint16{155, 230, 1523}, time.Second)
	if got := reasons(read(t, s)); !slices.Equal(got, []string{"recovery_reset", "xid_48"}) {
		t.Errorf("with a recovery action %q", got)
	}
}

// A driver that was loaded again begins its counters again, and nothing it has said before
// stands.
func TestHealthReturnsWithTheDriver(t *testing.T) {
	state := fakenvml.State{Driver: "580.65.06", GPUs: []fakenvml.GPU{h100(0)}}
	s, set := watching(t, state, 156, 230)
	read(t, s)
	state.GPUs[0].XIDs = fakenvml.XIDs(48)
	set(state)
	read(t, s)
	state.Init = 9
	set(state)
	s.close()
	s.Read()
	state.Init, state.Driver, state.GPUs[0].XIDs, state.GPUs[0].Values["energy"] = 0, "590.44.01", fakenvml.XIDs(), "5"
	set(state)
	r := read(t, s)
	if got := reasons(r); !slices.Equal(got, []string{"ok"}) || r.Entities[0].DriverVersion != "590.44.01" {
		t.Errorf("got %q with driver %s", got, r.Entities[0].DriverVersion)
	}
}

// Of a GPU instance with several compute instances, each is a MIG device that a pod may have.
func TestSeveralComputeInstances(t *testing.T) {
	o, _ := machine(t, fakenvml.State{GPUs: []fakenvml.GPU{repartitionGPU(0)}})
	e := read(t, opened(t, o, 252)).Entities[1]
	if !slices.Equal(e.MIGDevices, []string{fakenvml.MIGUUID(0, 1), fakenvml.MIGUUID(0, 2)}) {
		t.Errorf("%+v", e)
	}
}
