package hardware

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// fake is the path of the compiled library.
var fake string

func TestMain(m *testing.M) { fakenvml.Main(m, &fake) }

// testMachine is a driver with the fake's state behind it.
type testMachine struct {
	*NVML
	t     *testing.T
	path  string
	state fakenvml.State
}

func play(t *testing.T, s fakenvml.State) *testMachine {
	t.Helper()
	if fake == "" {
		t.Skip(fakenvml.ErrNoCompiler)
	}
	m := &testMachine{New(fake, 5*time.Minute), t, filepath.Join(t.TempDir(), "state"), s}
	m.set(s)
	t.Setenv(fakenvml.EnvState, m.path)
	return m
}

func (m *testMachine) set(s fakenvml.State) {
	m.t.Helper()
	require.NoError(m.t, s.Write(m.path))
	m.state = s
}

func (m *testMachine) now() fakenvml.State {
	m.t.Helper()
	s, err := fakenvml.Read(m.path)
	require.NoError(m.t, err)
	return s
}

func (m *testMachine) device(i int) GPU {
	m.t.Helper()
	machine, err := m.Read(m.t.Context())
	require.NoError(m.t, err)
	return machine.GPUs[i]
}

// gpuOf is a GPU of a product in MIG mode.
func gpuOf(t *testing.T, product, layout string) fakenvml.GPU {
	t.Helper()
	c, err := fakenvml.Product(0, product, layout)
	require.NoError(t, err)
	return c
}

func place(t *testing.T, product, text string) mig.Placement {
	t.Helper()
	table, _ := mig.ForModel(product)
	l, err := mig.ParseLayout(table, text)
	require.NoError(t, err)
	return l[0]
}

// TestEveryProduct: for each product a random maximal layout is created and destroyed; fake driver
// and gpu/mig agree at each step on what fits, and the layout that is read is the one that was
// created.
func TestEveryProduct(t *testing.T) {
	for _, model := range mig.Models() {
		t.Run(model, func(t *testing.T) {
			m := play(t, fakenvml.State{Driver: "580.159.03", GPUs: []fakenvml.GPU{gpuOf(t, model, "")}})
			table, _ := mig.ForModel(model)
			random := rand.New(rand.NewPCG(1, uint64(len(model))))
			var layout mig.Layout
			for {
				free := table.Free(layout)
				if len(free) == 0 {
					break
				}
				p := free[random.IntN(len(free))]
				if err := m.Create(t.Context(), fakenvml.GPUUUID(0), p); err != nil {
					t.Fatalf("%s on %s: %v", p, layout, err)
				}
				layout = mig.NewLayout(append(layout, p)...)
				if got := m.device(0).Layout(); !got.Equal(layout) {
					t.Fatalf("read %s, want %s", got, layout)
				}
			}
			for _, e := range table.Free(nil) {
				err := m.Create(t.Context(), fakenvml.GPUUUID(0), e)
				if there := mig.NewLayout(append(layout, e)...); table.Legal(there) == nil {
					t.Errorf("%s fits on %s and should not", e, layout)
				} else if err == nil && !slices.Contains(layout, e) {
					t.Errorf("%s was made on the full %s", e, layout)
				}
			}
			read := m.device(0)
			if _, err := mig.NewTable(read.Spec); err != nil {
				t.Errorf("what the driver says makes no table: %v", err)
			}
			for _, i := range read.Instances {
				require.NoError(t, m.Destroy(t.Context(), fakenvml.GPUUUID(0), i.ID))
			}
			if left := m.now().GPUs[0].Instances; len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

func TestBusyInstanceStays(t *testing.T) {
	const h = "H100-80GB"
	c := gpuOf(t, h, "!3g.40gb@0 1g.10gb@4")
	c.Instances[1].Computes = nil
	m := play(t, fakenvml.State{Driver: "580.159.03", GPUs: []fakenvml.GPU{c}})
	read := m.device(0)
	if len(read.Instances) != 2 || read.Instances[0].PIDs[0] != 1000 || !read.Instances[0].Whole || read.Instances[0].UUID != fakenvml.MIGUUID(0, 0) {
		t.Fatalf("read %+v", read.Instances)
	}
	if read.Instances[1].Whole || read.Layout().String() != "3g@0:4" {
		t.Errorf("an instance without compute instance counts: %+v", read.Instances[1])
	}
	if err := m.Destroy(t.Context(), fakenvml.GPUUUID(0), 1); !errors.Is(err, ErrInUse) {
		t.Errorf("destroying a busy instance: %v", err)
	}
	if err := m.Create(t.Context(), fakenvml.GPUUUID(0), place(t, h, "2g.20gb@4")); !errors.Is(err, ErrNoFreeSlices) {
		t.Errorf("a place that is taken: %v", err)
	}
	if err := m.Create(t.Context(), fakenvml.GPUUUID(0), place(t, h, "1g.10gb@4")); err != nil {
		t.Errorf("completing what is half there: %v", err)
	}
	if got := m.device(0).Layout().String(); got != "3g@0:4 1g@4:1" {
		t.Errorf("layout %s", got)
	}
	if err := m.Destroy(t.Context(), fakenvml.GPUUUID(0), 17); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	if err := m.Destroy(t.Context(), fakenvml.GPUUUID(9), 1); !errors.Is(err, ErrNoSuchGPU) {
		t.Errorf("no such GPU: %v", err)
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "none.so"), time.Minute).Read(t.Context()); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("err = %v", err)
	}
}
