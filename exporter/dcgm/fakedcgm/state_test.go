package fakedcgm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the library cannot read is not written.
func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for name, s := range map[string]State{
		"long":    {GPUs: []GPU{{Product: strings.Repeat("x", maxText)}}},
		"both":    {GPUs: []GPU{{Odd: Odd{1: "nan"}, Fields: Fields{1: 1}}}},
		"word":    {GPUs: []GPU{{Odd: Odd{1: "absent"}}}},
		"status":  {GPUs: []GPU{{Odd: Odd{1: "status:0"}}}},
		"gpus":    {GPUs: make([]GPU, maxGPUs+1)},
		"profile": {GPUs: []GPU{{Profiling: make([]uint16, maxProfiled+1)}}},
		"xids":    {GPUs: []GPU{{XIDs: make([]XID, maxXIDs+1)}}},
		"things":  {Switches: make([]Switch, maxEntities+1)},
	} {
		if err := s.Write(path); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("files left behind: %v", left)
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
