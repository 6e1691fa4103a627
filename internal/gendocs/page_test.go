package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

func TestMetricsPage(t *testing.T) {
	page := metricsPage([]metric.Desc{{
		Name: "gpu_x_ratio", Help: "a|b", Type: metric.Gauge, Labels: []string{"node"}, Optional: []string{"pod"},
		Owner: metric.Adapter, Stability: metric.Alpha,
	}, {Name: "gpu_y_ratio", Help: "y", Type: metric.Gauge, Owner: metric.Adapter, Stability: metric.Stable}}, []metric.Read{{Name: "vllm:x", Server: "vllm", Type: metric.Counter, Help: "h"}, {Name: "vllm:y", Server: "vllm"}}, []string{"vllm:y"})
	for _, line := range []string{
		`| ` + "`gpu_x_ratio`" + ` | gauge | node [pod] | a\|b |`,
		`| ` + "`gpu_y_ratio` | gauge |  | y `stable` |",
		`| ` + "`vllm:x`" + ` | vllm | counter | h |`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	if strings.Contains(page, "vllm:y") {
		t.Error("a series of a signal is on two pages")
	}
}

func TestReasonsPage(t *testing.T) {
	page := reasonsPage([]plan.ReasonDoc{{Reason: "Steady", Kind: "pool", Meaning: "m"}})
	if want := "| `Steady` | pool | m | Nothing. |\n"; !strings.Contains(page, want) {
		t.Errorf("no line %s in\n%s", want, page)
	}
}

// Nothing in the catalogue or the vocabulary is left out of the pages.
func TestWriteIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	metrics, reasons := read("metrics.md"), read("reasons.md")
	for _, d := range metric.All() {
		if strings.Count(metrics, "`"+d.Name+"`") != 1 {
			t.Errorf("%s is not there once", d.Name)
		}
	}
	for _, r := range plan.Reasons() {
		if strings.Count(reasons, "`"+string(r.Reason)+"`") != 1 {
			t.Errorf("%s is not there once", r.Reason)
		}
	}
	if err := write(filepath.Join(dir, "missing")); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}
