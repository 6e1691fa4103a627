package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// NVIDIA's GPU Operator runs any image with DCGM_EXPORTER_COLLECTORS=/etc/dcgm-exporter/dcp-metrics-included.csv.
func TestFilesOfTheOtherImageAreBuiltIn(t *testing.T) {
	for path, want := range map[string]int{"": 26, defaultCountersFile: 26, operatorCountersFile: 26} {
		if _, err := os.Stat(path); err == nil {
			t.Skipf("%s is there", path)
		}
		source, err := newCounters(&config{countersFile: path})
		require.NoError(t, err)
		for range 2 { // a reload finds the same
			file, err := source.load(t.Context())
			if err != nil || len(file.Fields) != want {
				t.Fatalf("%q: %d counters, %v; want %d", path, len(file.Fields), err, want)
			}
			output := ""
			for _, w := range file.Warnings {
				output += w.Error()
			}
			if (output == "") != (path == "") || path != "" && !strings.HasPrefix(output, path+":1: there is no such file") {
				t.Errorf("%q: output %q", path, output)
			}
		}
	}
	absent := &config{countersFile: filepath.Join(t.TempDir(), "dcp-metrics-included.csv")}
	if _, err := loadCounters(t.Context(), absent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file that is not there: %v", err)
	}
}

// The removal of a file that was read is a mistake, and its content stays in use: with the built-in counters its series
// would end.
func TestAFileThatGoesIsNotReplaced(t *testing.T) {
	f := &countersSource{config: &config{countersFile: operatorCountersFile}, found: true}
	if _, err := os.Stat(operatorCountersFile); err == nil {
		t.Skipf("%s is there", operatorCountersFile)
	}
	if file, err := f.readFile(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d counters, %v", len(file.Fields), err)
	}
	path := filepath.Join(t.TempDir(), "counters.csv")
	require.NoError(t, os.WriteFile(path, []byte("DCGM_FI_DEV_GPU_UTIL, gauge, u\n"), 0o600))
	f = &countersSource{config: &config{countersFile: path}}
	if file, err := f.readFile(); err != nil || len(file.Fields) != 1 || !f.found {
		t.Errorf("%d counters, %v, found %v", len(file.Fields), err, f.found)
	}
}
