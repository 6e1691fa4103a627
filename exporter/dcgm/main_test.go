package dcgm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

const envLibraries = "GPUSCALE_TEST_DCGM_LIBRARIES"

// TestMain starts the test binary again with the fake on the library path, which the
// dynamic loader reads only at the start.
func TestMain(m *testing.M) {
	if _, again := os.LookupEnv(envLibraries); again {
		os.Exit(m.Run())
	}
	if err := runWithFake(); errors.Is(err, fakenvml.ErrNoCompiler) {
		fmt.Println("skipping:", err)
	} else {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runWithFake replaces the process; it returns only when that fails.
func runWithFake() error {
	lib, err := fakedcgm.Build(context.Background(), "")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), "LD_LIBRARY_PATH="+lib, envLibraries+"="+lib))
}

// machine is the fake's state in a test.
type machine struct {
	t    testing.TB
	path string
	runs int // of host engines
	// kernel are the XIDs that are in the kernel log too.
	kernel map[fakenvml.XID]bool
	fakenvml.State
}

// newMachine has whole H100s with values in the default fields.
func newMachine(t testing.TB, devs int) *machine {
	t.Helper()
	m := &machine{t: t, path: filepath.Join(t.TempDir(), "state"), kernel: map[fakenvml.XID]bool{}}
	m.Driver, m.Lines = "580.65.06", fakenvml.Lines{}
	for i := range devs {
		c, err := fakenvml.Product(i, "H100-80GB", "-")
		require.NoError(t, err)
		c.Name, c.Minor, c.MemoryMiB = "NVIDIA H100 80GB HBM3", i+1, 81559
		c.Values = fakedcgm.Fields(map[uint16]float64{155: 321.5, 156: 1e6, 203: 87, 204: 40, 252: 1000, 251: 80559, 150: 55, 1001: 0.75})
		m.GPUs = append(m.GPUs, c)
	}
	t.Setenv(fakenvml.EnvState, m.path)
	m.write()
	return m
}

func (m *machine) write() {
	m.t.Helper()
	require.NoError(m.t, m.Write(m.path))
}

// set gives a GPU's field a number or an odd answer.
func (m *machine) set(dev int, field uint16, answer any) {
	m.GPUs[dev].Values[fakedcgm.Field(field)] = fmt.Sprint(answer)
}

// partition puts a GPU into MIG mode with the instances of a layout, as fakenvml.Product has it.
func (m *machine) partition(dev int, layout string) {
	m.t.Helper()
	c := &m.GPUs[dev]
	p, err := fakenvml.Product(dev, "H100-80GB", layout)
	require.NoError(m.t, err)
	c.MIG, c.Instances = true, p.Instances
	delete(c.Values, fakedcgm.Field(203))
	for i := range c.Instances {
		c.Instances[i].Values = fakedcgm.Fields(map[uint16]float64{1001: 0.5, 252: 123, 250: 40448})
	}
}

const onTCP = "127.0.0.1:5555"

// engine runs a host engine on the machine, which has the XIDs of the kernel log, and returns its address.
func (m *machine) engine(address string) string {
	m.t.Helper()
	m.runs++
	m.Engine = fmt.Sprint(address, " ", m.runs)
	for i := range m.GPUs {
		m.GPUs[i].XIDs = slices.DeleteFunc(m.GPUs[i].XIDs, func(x fakenvml.XID) bool { return !m.kernel[x] })
	}
	m.write()
	return address
}

// clock is a test's time: the wall clock's, plus an offset.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// defaults are fields of dcgm-exporter's default counters.
var defaults = []uint16{100, 101, 140, 150, 155, 156, 202, 203, 204, 206, 207, 230, 251, 252, 253, 449, 1001, 1004, 1005, 1009, 1010}

// open returns a source of these fields, which closes the library before the next test.
func open(t testing.TB, o Options, fields ...uint16) *reader {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	if len(fields) > 0 {
		watchFields(t, s, fields...)
	}
	return s.(*reader)
}

// open and read use the machine as it is now.
func (m *machine) open(o Options, fields ...uint16) *reader {
	m.t.Helper()
	m.write()
	return open(m.t, o, fields...)
}

func (m *machine) read(s *reader) *collect.Reading {
	m.t.Helper()
	m.write()
	return read(m.t, s)
}

func watchFields(t testing.TB, s collect.Source, fields ...uint16) {
	t.Helper()
	s.Watch(fields, 100*time.Millisecond, nil)
}

// read looks for devices too.
func read(t testing.TB, s *reader) *collect.Reading {
	t.Helper()
	s.learned = time.Time{}
	r, err := s.Read()
	require.NoError(t, err)
	return r
}

// number returns a value of an entity, or fails.
func number(t testing.TB, e collect.Entity, field uint16) float64 {
	t.Helper()
	if v, known := e.Value(field); known {
		return v.Number
	}
	t.Fatalf("GPU %d instance %d has no field %d: %+v", e.GPU, e.InstanceID, field, e.Values)
	return 0
}

func has(e collect.Entity, field uint16) bool { _, known := e.Value(field); return known }
