package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplayReadsLists: lists may be compressed, or exported from a spreadsheet.
func TestReplayReadsLists(t *testing.T) {
	dir := t.TempDir()
	plain, err := os.ReadFile("../plan/replay/testdata/nodes.csv")
	if err != nil {
		t.Fatal(err)
	}
	small := packed(t, string(plain))
	nodes, pods := filepath.Join(dir, "nodes.csv.gz"), filepath.Join(dir, "pods.csv")
	sheet := "\ufeff\"name\",\"cpu_milli\",\"memory_mib\",\"num_gpu\",\"gpu_milli\",\"gpu_spec\"\r\n\"a\",\"1000\",\" 64\",\"1.0\",\"500.0\",\"\"\r\n"
	for name, text := range map[string][]byte{nodes: small, pods: []byte(sheet)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := command(t, "replay", "--nodes", nodes, "--pods", pods, "--seeds", "1", "--policy", "bestfit")
	if err != nil || !strings.Contains(out, "114 GPUs, 1 pods") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(nodes, small[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, "replay", "--nodes", nodes, "--pods", pods); err == nil || !strings.Contains(err.Error(), nodes) {
		t.Errorf("truncated: %v", err)
	}
}
