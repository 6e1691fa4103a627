package fakedcgm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestBuildReuses(t *testing.T) {
	dir := t.TempDir()
	lib, err := Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(lib, "libdcgm.so.4"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(t.Context(), dir)
	if err != nil || again != lib {
		t.Fatalf("%s, %v; before %s", again, err, lib)
	}
	after, err := os.Stat(filepath.Join(lib, "libdcgm.so.4"))
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Error("built again")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Build(t.Context(), t.TempDir()); !errors.Is(err, ErrNoCompiler) {
		t.Errorf("got %v", err)
	}
}

func TestBuildStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, t.TempDir()); err == nil {
		t.Error("builds after its context ended")
	}
}

// sanitized links files under the sanitizers, or without them where gcc has none.
func sanitized(t *testing.T, exe string, files ...string) {
	t.Helper()
	args := append([]string{"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-g", "-o", exe}, files...)
	checked := append(slices.Clone(args), "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	if out, err := exec.Command("gcc", checked...).CombinedOutput(); err != nil {
		t.Logf("without sanitizers: %s", out)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

func inC(files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = "c/" + f
	}
	return out
}

// The driver makes every call, on an embedded host engine and on remote ones.
func TestDriver(t *testing.T) {
	dir := t.TempDir()
	drive := filepath.Join(dir, "drive")
	sanitized(t, drive, append(inC(slices.Concat(engineFiles, libraryFiles)), "testdata/drive.c")...)
	sanitized(t, filepath.Join(dir, HostEngine), inC(append(slices.Clone(engineFiles), "server.c"))...)
	t.Run("embedded", func(t *testing.T) { testCalls(t, drive, func(string) string { return "" }) })
	for name, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(dir, "socket")} {
		t.Run(name, func(t *testing.T) {
			testCalls(t, drive, func(state string) string {
				e, err := StartEngine(t.Context(), dir, address, state)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(e.Kill)
				return e.Address
			})
		})
	}
	t.Run("readers agree", func(t *testing.T) { testReadersAgree(t, drive) })
}

// testCalls runs the driver on the host engine that start gives the address of.
func testCalls(t *testing.T, drive string, start func(state string) string) {
	state := filepath.Join(t.TempDir(), "state")
	s := State{DriverVersion: "580", Cards: []Card{{
		UUID: "GPU-0", Product: "NVIDIA H100 80GB HBM3", MIG: true, Fields: Fields{155: 321.5, 203: 87, 112: 4},
		Odd: Odd{
			100: "not_found", 101: "not_permitted", 140: "int32_unsupported", 150: "nan", 157: "inf", 206: "status:-18", 53: "text:N/A",
		},
		XIDs:      []XID{{31, time.UnixMicro(1000)}, {79, time.UnixMicro(2000)}},
		Instances: []Instance{{ID: 1, EntityID: 3, UUID: "MIG-1", Profile: "3g.40gb", Fields: Fields{252: math.NaN()}}},
	}, {Index: 1, UUID: "GPU-1", Profiling: []uint16{1001, 1040}}},
		Switches:  []Switch{{ID: 2, Fields: Fields{858: 41}}},
		Links:     []Link{{Of: OfGPU, ID: 1, Index: 5, Up: true, Fields: Fields{580: 7}}, {Of: OfSwitch, ID: 2, Index: 63}},
		CPUs:      []CPU{{ID: 0, First: 0, Last: 71, Fields: Fields{1110: 50}, Cores: []Core{{ID: 70, Fields: Fields{1100: 0.5}}}}},
		Incidents: []Incident{{GPU: 1, System: 2, Result: 20, Code: 14}},
		Peers:     []Peer{{From: 0, To: 1, Status: 5}},
		Fail:      map[string]int{"dcgmGetDeviceTopology": -3},
	}
	if err := s.Write(state); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(drive)
	cmd.Env = append(os.Environ(), EnvState+"="+state, "DRIVE_ADDRESS="+start(state))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A host engine that is killed is gone for a connected library, and one that is
// started in its place knows nothing of the old connection.
func TestEngineDiesAndReturns(t *testing.T) {
	dir := t.TempDir()
	lib, err := Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	if err := (State{}).Write(state); err != nil {
		t.Fatal(err)
	}
	first, err := StartEngine(t.Context(), lib, "127.0.0.1:0", state)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", first.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.ReadFull(client, make([]byte, 8)); err != nil {
		t.Fatalf("no greeting: %v", err)
	}
	first.Kill()
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlives its host engine")
	}
	if again, err := net.Dial("tcp", first.Address); err == nil {
		again.Close()
		t.Error("a dead host engine accepts")
	}
	second, err := StartEngine(t.Context(), lib, first.Address, state)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill()
	if second.Address != first.Address {
		t.Errorf("address %s, before %s", second.Address, first.Address)
	}
}

// It ends with the process that started it, also when that is killed.
func TestEngineEndsWithItsStarter(t *testing.T) {
	lib, err := Build(t.Context(), t.TempDir())
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

func TestEngineRefuses(t *testing.T) {
	lib, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"localhost:0", "127.0.0.1", "/nonexistent/socket"} {
		if e, err := StartEngine(t.Context(), lib, address, "state"); err == nil {
			e.Kill()
			t.Errorf("it listens on %s", address)
		}
	}
}

// Both readers of the state file accept and refuse the same.
func testReadersAgree(t *testing.T, drive string) {
	good, err := example().encode()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{good: 0, goodCard + "end": 0, everything: 0, "fakedcgm 1\n \t\n#x\nend": 0}
	for text, line := range badStates {
		if text != "" {
			want[text] = line
		}
	}
	dir := t.TempDir()
	var files, texts []string
	for text := range want {
		file := filepath.Join(dir, strconv.Itoa(len(files)))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files, texts = append(files, file), append(texts, text)
	}
	out, err := exec.Command(drive, files...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, got := range strings.Fields(string(out)) {
		if got != fmt.Sprint(want[texts[i]]) {
			t.Errorf("line %s is said to be bad, want %d, of:\n%s", got, want[texts[i]], texts[i])
		}
		if _, err := decode(texts[i]); (err != nil) != (want[texts[i]] != 0) {
			t.Errorf("the Go reader disagrees (%v) on:\n%s", err, texts[i])
		}
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
