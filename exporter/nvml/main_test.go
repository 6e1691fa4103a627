package nvml

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// fake is the path of the compiled library.
var fake string

func TestMain(m *testing.M) { fakenvml.Main(m, &fake) }

// machine writes the fake's state; the function changes it.
func machine(t *testing.T, s fakenvml.State) (options Options, set func(fakenvml.State)) {
	t.Helper()
	if fake == "" {
		t.Skip(fakenvml.ErrNoCompiler)
	}
	path := filepath.Join(t.TempDir(), "state")
	set = func(s fakenvml.State) {
		t.Helper()
		require.NoError(t, s.Write(path))
	}
	set(s)
	t.Setenv(fakenvml.EnvState, path)
	return Options{LibraryPath: fake}, set
}

func opened(t *testing.T, o Options, fields ...uint16) *Source {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Watch(fields, time.Second, nil)
	return s
}

// watching reads these fields of a machine; the function changes it.
func watching(t *testing.T, s fakenvml.State, fields ...uint16) (*Source, func(fakenvml.State)) {
	t.Helper()
	o, set := machine(t, s)
	return opened(t, o, fields...), set
}

func read(t *testing.T, s *Source) *collect.Reading {
	t.Helper()
	r, err := s.Read()
	require.NoError(t, err)
	return r
}

// h100 is a GPU with the answers of an H100's driver.
func h100(i int) fakenvml.GPU {
	table, _ := mig.ForModel("H100-80GB")
	return fakenvml.GPU{
		UUID: fakenvml.GPUUUID(i), Name: "NVIDIA H100 80GB HBM3", MemoryMiB: 81559, Spec: table.Spec(),
		Minor: 7 - i, GPM: true, XIDs: fakenvml.XIDs(),
		Values: map[string]string{
			"util": "37 12", "memory": "85520809984 4294967296 536870912", "power": "321500", "energy": "2000000",
			"clock.1": "1980", "temperature.0": "44", "field.82": "51", "violation.0": "1500", "remapped": "1 2 0 1",
			"ecc.10": "3", "ecc.1": "4", "retired.0": "!3", "sm": "none", "throttle": "4", "pcie_replay": "5",
			"gpm.1": "75", "gpm.20": "2",
		},
	}
}

// repartitionGPU has a 3g and a 1g instance.
func repartitionGPU(i int) fakenvml.GPU {
	c := h100(i)
	c.MIG = true
	c.Instances = []fakenvml.Instance{
		{ID: 9, Placement: at(4, 1, 1), Computes: fakenvml.Whole(fakenvml.MIGUUID(i, 9)), Values: map[string]string{"memory": "10485760 1048576 0", "gpm.1": "50"}},
		{ID: 1, Placement: at(0, 3, 4), Computes: []fakenvml.Compute{{ID: 0, Slices: 1, UUID: fakenvml.MIGUUID(i, 1)}, {ID: 1, Start: 1, Slices: 1, UUID: fakenvml.MIGUUID(i, 2)}},
			Values: map[string]string{"memory": "41943040 2097152 0", "gpm.1": "25"}},
	}
	return c
}

// at is the placement of an instance of so many compute and memory slices.
func at(start, compute, memory int) mig.Placement {
	return mig.Placement{Profile: mig.Profile{Compute: compute, Memory: memory}, Start: start}
}
