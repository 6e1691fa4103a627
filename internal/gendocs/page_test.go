package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// Nothing in the catalogue or the vocabulary is left out of the pages.
func TestWriteIsComplete(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, write(dir))
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	metrics, reasons := read("metrics.md"), read("reasons.md")
	for _, d := range metric.All() {
		if strings.Count(metrics, "`"+d.Name+"`") != 1 {
			t.Errorf("%s is not there once", d.Name)
		}
	}
	meanings := map[string]bool{}
	for _, r := range plan.Reasons() {
		meanings["  meaning: "+r.Meaning+"\n"] = true
		if strings.Count(reasons, "`"+string(r.Reason)+"`") != 1 {
			t.Errorf("%s is not there once", r.Reason)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) { // outputs of explain
			if strings.HasPrefix(line, "  meaning: ") && !meanings[line] {
				t.Errorf("%s: no reason has this meaning: %s", page, line)
			}
		}
	}
	if err := write(filepath.Join(dir, "missing")); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}
