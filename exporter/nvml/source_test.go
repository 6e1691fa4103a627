package nvml

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collecttest"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// envAlone marks the test binary's process of one test.
const envAlone = "GPUSCALE_TEST_ALONE"

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

// An older library lacks functions; calling one would end the process. A process keeps the library that it loaded
// first, so this library gets a process of its own.
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
	require.NoError(t, err)
	o.LibraryPath = filepath.Join(lib, fakenvml.Library)
	s := opened(t, o, 155, 230, 393, 394, 395, 396, 1001)
	if got := collecttest.Text(read(t, s), collecttest.Options{}); got != "0 GPU-0: 155=321.5\ndropped: 5 not_supported\n" {
		t.Error(got)
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
