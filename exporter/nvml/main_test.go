package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/nvml/fakenvml"
)

// fake is the path of the compiled library. It is loaded once in the process:
// symbols stay bound to the first one.
var fake string

func TestMain(m *testing.M) {
	lib, err := fakenvml.Build(context.Background(), "")
	if err == nil {
		fake = filepath.Join(lib, fakenvml.Library)
	} else if !errors.Is(err, fakenvml.ErrNoCompiler) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// machine starts the fake as a machine; the function changes it.
func machine(t *testing.T, s fakenvml.State) (options Options, set func(fakenvml.State)) {
	t.Helper()
	if fake == "" {
		t.Skip(fakenvml.ErrNoCompiler)
	}
	path := filepath.Join(t.TempDir(), "state")
	set = func(s fakenvml.State) {
		t.Helper()
		if err := s.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	set(s)
	t.Setenv(fakenvml.EnvState, path)
	return Options{LibraryPath: fake}, set
}

func opened(t *testing.T, o Options, fields ...uint16) *Source {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Watch(fields, time.Second); err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, s *Source) *collect.Reading {
	t.Helper()
	r, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// h100 is a GPU as the driver of one answers.
func h100(i int) fakenvml.GPU {
	return fakenvml.GPU{
		UUID: fmt.Sprintf("GPU-0000000%d", i), Name: "NVIDIA H100 80GB HBM3", PCIBusID: fmt.Sprintf("00000000:%02X:00.0", i+1),
		Minor: 7 - i, MostInstances: 7, GPM: true, XIDs: []int{},
		Values: map[string]string{
			"util": "37 12", "memory": "85520809984 4294967296 536870912", "power": "321500", "energy": "2000000",
			"clock.1": "1980", "temperature.0": "44", "field.82": "51", "violation.0": "1500", "remapped": "1 2 0 1",
			"ecc.10": "3", "ecc.1": "4", "retired.0": "!3", "sm": "none", "throttle": "4", "pcie_replay": "5",
			"gpm.1": "75", "gpm.20": "2",
		},
	}
}

// repartitionGPU has a 3g and a 1g on it.
func repartitionGPU(i int) fakenvml.GPU {
	c := h100(i)
	c.MIG = true
	c.Instances = []fakenvml.Instance{
		{UUID: "MIG-9", Name: c.Name + " MIG 1g.10gb", ID: 9, Slices: 1, Start: 4, Size: 1, Values: map[string]string{"memory": "10485760 1048576 0", "gpm.1": "50"}},
		{UUID: "MIG-1", Name: c.Name + " MIG 1c.3g.40gb", ID: 1, Slices: 3, Start: 0, Size: 4, Values: map[string]string{"memory": "41943040 2097152 0", "gpm.1": "25"}},
		{UUID: "MIG-1b", Name: c.Name + " MIG 1c.3g.40gb", ID: 1, Slices: 3, Start: 0, Size: 4},
	}
	return c
}
