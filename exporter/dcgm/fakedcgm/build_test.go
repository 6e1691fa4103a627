package fakedcgm

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// compileDriver links testdata/drive.c with the double's source under the
// sanitizers, or without them where gcc has none.
func compileDriver(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "drive")
	args := []string{"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-g", "-o", exe, "testdata/drive.c"}
	for _, f := range libraries["libdcgm.so.4"] {
		args = append(args, "c/"+f)
	}
	sanitized := append(slices.Clone(args), "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	if out, err := exec.Command("gcc", sanitized...).CombinedOutput(); err != nil {
		t.Logf("without sanitizers: %s", out)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return exe
}

func TestDriver(t *testing.T) {
	drive := compileDriver(t)
	t.Run("calls", func(t *testing.T) { testCalls(t, drive) })
	t.Run("readers agree", func(t *testing.T) { testReadersAgree(t, drive) })
}

func testCalls(t *testing.T, drive string) {
	state := filepath.Join(t.TempDir(), "state")
	s := State{DriverVersion: "580", Cards: []Card{{
		UUID: "GPU-0", Product: "NVIDIA H100 80GB HBM3", MIG: true, Fields: map[uint16]float64{155: 321.5, 203: 87},
		XIDs:      []XID{{31, time.UnixMicro(1000)}, {79, time.UnixMicro(2000)}},
		Instances: []Instance{{ID: 1, EntityID: 3, UUID: "MIG-1", Profile: "3g.40gb", Fields: map[uint16]float64{252: math.NaN()}}},
	}, {Index: 1, UUID: "GPU-1"}}}
	if err := s.Write(state); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(drive)
	cmd.Env = append(os.Environ(), EnvState+"="+state)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Both readers of the state file accept and refuse the same.
func testReadersAgree(t *testing.T, drive string) {
	good, err := example().encode()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{good: 0, goodCard + "end": 0, "fakedcgm 1\n \t\n#x\nend": 0}
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
