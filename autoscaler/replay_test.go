package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/plan/replay"
)

const (
	replayNodes = "../plan/replay/testdata/nodes.csv"
	replayPods  = "../plan/replay/testdata/pods.csv"
)

func runCommand(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := newCommand(&o, &e)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

func TestReplayCommand(t *testing.T) {
	out, progress, err := runCommand(t, "replay", "--nodes", replayNodes, "--pods", replayPods, "--policy", "bestfit,ours", "--policy", "random", "--seeds", "2")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(progress, "\n"); n != 6 || !strings.Contains(progress, "6 of 6: ") {
		t.Errorf("progress:\n%s", progress)
	}
	for _, want := range []string{"114 cards", "at 130 %", "\nbestfit ", "\nours ", "\nrandom "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestReplayJSON(t *testing.T) {
	out, _, err := runCommand(t, "replay", "--nodes", replayNodes, "--pods", replayPods, "--mig", "--seeds", "1", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var table replay.Table
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 3 || table.Rows[0].Policy != "ours" || table.Rows[0].AtEnd.Mean < 50 || !strings.Contains(table.Note, "not comparable") {
		t.Errorf("got %+v", table)
	}
}

// Lists as people have them: packed, and out of a spreadsheet.
func TestReplayReadsOtherPeoplesLists(t *testing.T) {
	dir := t.TempDir()
	plain, err := os.ReadFile(replayNodes)
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
	out, _, err := runCommand(t, "replay", "--nodes", nodes, "--pods", pods, "--seeds", "1", "--policy", "bestfit")
	if err != nil || !strings.Contains(out, "114 cards, 1 pods") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(nodes, small[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := runCommand(t, "replay", "--nodes", nodes, "--pods", pods); err == nil || !strings.Contains(err.Error(), nodes) {
		t.Errorf("cut off: %v", err)
	}
}

func TestReplayRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	text := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,64,1,half,\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	header := filepath.Join(t.TempDir(), "header.csv")
	if err := os.WriteFile(header, []byte("sn,cpu_milli,memory_mib,gpu,model\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--nodes", header, "--pods", replayPods}, "header.csv and " + replayPods + ": 0 nodes without a GPU"},
		{[]string{"--nodes", replayNodes}, `required flag(s) "pods" not set`},
		{[]string{"--nodes", "none.csv", "--pods", replayPods}, "none.csv"},
		{[]string{"--nodes", replayNodes, "--pods", bad}, `bad.csv:2: gpu_milli: "half": want a whole number`},
		{[]string{"--nodes", replayNodes, "--pods", replayNodes}, `nodes.csv:1: no column "name"`},
		{[]string{"--nodes", replayNodes, "--pods", replayPods, "--policy", "worst"}, `policy "worst": want`},
		{[]string{"--nodes", replayNodes, "--pods", replayPods, "-o", "yaml"}, `--output "yaml": want text or json`},
		{[]string{"--nodes", replayNodes, "--pods", replayPods, "--seeds", "0"}, "0 seeds"},
	} {
		if _, _, err := runCommand(t, append([]string{"replay"}, test.args...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.args, err, test.want)
		}
	}
}
