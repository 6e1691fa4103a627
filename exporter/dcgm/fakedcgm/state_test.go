package fakedcgm

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

func example() State {
	return State{
		DriverVersion: "580.65.06", HangFor: 1500 * time.Millisecond, Dead: true,
		GPUs: []GPU{{
			Index: 1, Minor: 3, UUID: fakenvml.GPUUUID(1), Product: "NVIDIA H100 80GB HBM3", PCIBusID: "00000000:07:00.0",
			MemoryMiB: 81559, MIG: true, Lost: true, Fields: map[uint16]float64{203: 1.5, 155: 0.1 + 0.2},
			XIDs: []XID{{Code: 79, At: time.UnixMicro(1790000000123456)}},
			Instances: []Instance{{
				ID: 2, EntityID: 9, Profile: "3g.40gb", ComputeSlices: 3, Start: 4, Size: 4, UUID: fakenvml.MIGUUID(1, 2),
				Fields: map[uint16]float64{1001: 1e-9},
			}},
		}, {
			UUID: fakenvml.GPUUUID(2),
			Odd:  Odd{155: "inf", 203: "status:-18", 54: "text:N/A maybe", 1: "int32_not_found"}, Frozen: true,
			Profiling: []uint16{1001, 1040},
		}},
		Switches:  []Switch{{ID: 3, Fields: Fields{858: 40}}},
		Links:     []Link{{Of: OfGPU, ID: 1, Index: 17, Up: true, Odd: Odd{580: "blank"}}, {Of: OfSwitch, ID: 3, Index: 255}},
		CPUs:      []CPU{{ID: 1, First: 72, Last: 143, Fields: Fields{1110: 50}, Cores: []Core{{ID: 72, Fields: Fields{1100: 0.5}}}}},
		Incidents: []Incident{{GPU: 1, System: 16, Result: 10, Code: 5}},
		Peers:     []Peer{{From: 1, To: 0, Status: 3}},
		NoNVML:    true,
		Fail:      map[string]int{"dcgmHealthCheck": -33, "dcgmGetCpuHierarchy": -6},
	}
}

func TestStateRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, want := range []State{{}, example()} {
		if err := want.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
		}
	}
}

// What the C reader refuses is not written.
func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for name, s := range map[string]State{
		"quote":    {GPUs: []GPU{{Product: `NVIDIA "H100"`}}},
		"newline":  {GPUs: []GPU{{Product: "H100\nfield 203 1"}}},
		"long":     {GPUs: []GPU{{Product: strings.Repeat("x", maxText)}}},
		"infinite": {GPUs: []GPU{{Fields: map[uint16]float64{1: math.Inf(1)}}}},
		"both":     {GPUs: []GPU{{Odd: Odd{1: "nan"}, Fields: Fields{1: 1}}}},
		"gpus":     {GPUs: make([]GPU, maxGPUs+1)},
		"parts":    {GPUs: []GPU{{Instances: make([]Instance, maxInstances+1)}}},
		"xids":     {GPUs: []GPU{{XIDs: make([]XID, maxXIDs+1)}}},
		"things":   {Switches: make([]Switch, maxThings+1)},
		"notes":    {Peers: make([]Peer, maxNotes+1)},
	} {
		if err := s.Write(path); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// It ends with the process that started it, also when that is killed.
func TestEngineEndsWithItsStarter(t *testing.T) {
	lib, err := Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	if err := (State{}).Write(state); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(lib, HostEngine), "-p", "127.0.0.1:0", "-w")
	cmd.Env = append(os.Environ(), EnvState+"="+state)
	leash, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leash.Close()
	if err := cmd.Wait(); err != nil { // or the test's own time runs out
		t.Error(err)
	}
}

// The shapes here and in exporter/dcgm are those of NVIDIA's headers.
func TestABI(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	headers := filepath.Join(strings.TrimSpace(string(out)), "pkg", "dcgm")
	if _, statErr := os.Stat(filepath.Join(headers, "dcgm_structs.h")); err != nil || statErr != nil {
		t.Skip("go-dcgm's headers are not here:", err, statErr)
	}
	cmd := exec.Command("gcc", "-std=c11", "-fsyntax-only", "-I"+headers, "testdata/abi.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
