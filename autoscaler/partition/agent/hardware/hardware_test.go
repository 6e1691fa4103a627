//go:build cgo

package hardware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/fakenvml"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// double is the compiled library. It is loaded once in the process: symbols stay
// bound to the first one.
var double string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fakenvml-*")
	if err == nil {
		double, err = fakenvml.Build(context.Background(), dir)
	}
	if err != nil && !errors.Is(err, fakenvml.ErrNoCompiler) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// machine is a driver with the double's state behind it.
type testMachine struct {
	*NVML
	t     *testing.T
	path  string
	state fakenvml.State
}

func play(t *testing.T, s fakenvml.State) *testMachine {
	t.Helper()
	if double == "" {
		t.Skip(fakenvml.ErrNoCompiler)
	}
	m := &testMachine{New(double, 20*time.Second), t, filepath.Join(t.TempDir(), "state"), s}
	m.set(s)
	t.Setenv(fakenvml.EnvState, m.path)
	return m
}

func (m *testMachine) set(s fakenvml.State) {
	m.t.Helper()
	if err := s.Write(m.path); err != nil {
		m.t.Fatal(err)
	}
	m.state = s
}

func (m *testMachine) now() fakenvml.State {
	m.t.Helper()
	s, err := m.state.Read(m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func (m *testMachine) card(i int) Card {
	m.t.Helper()
	machine, err := m.Read(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return machine.Cards[i]
}

// cardOf is an idle card of a product in MIG mode.
func cardOf(t *testing.T, i int, product string) fakenvml.Card {
	t.Helper()
	table, ok := mig.ForModel(product)
	if !ok {
		t.Fatalf("no table for %s", product)
	}
	spec := table.Spec()
	return fakenvml.Card{UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA " + product, MemoryMiB: spec.MemoryMiB, MIG: true, Spec: spec}
}

func place(t *testing.T, product, text string) mig.Placement {
	t.Helper()
	table, _ := mig.ForModel(product)
	l, err := mig.ParseLayout(table, text)
	if err != nil {
		t.Fatal(err)
	}
	return l[0]
}

// TestEveryProduct: each product is built up at random to a maximal layout and
// taken down again; the driver's double and gpu/mig agree at each step on what
// fits, and what is read back is what was made.
func TestEveryProduct(t *testing.T) {
	for _, model := range mig.Models() {
		t.Run(model, func(t *testing.T) {
			m := play(t, fakenvml.State{Driver: "580.159.03", Cards: []fakenvml.Card{cardOf(t, 0, model)}})
			table, _ := mig.ForModel(model)
			random := rand.New(rand.NewPCG(1, uint64(len(model))))
			var layout mig.Layout
			for {
				free := table.Free(layout)
				if len(free) == 0 {
					break
				}
				p := free[random.IntN(len(free))]
				if err := m.Create(t.Context(), "GPU-0", p); err != nil {
					t.Fatalf("%s on %s: %v", p, layout, err)
				}
				layout = mig.NewLayout(append(layout, p)...)
				if got := m.card(0).Layout(); !got.Equal(layout) {
					t.Fatalf("read %s, want %s", got, layout)
				}
			}
			for _, e := range table.Free(nil) {
				err := m.Create(t.Context(), "GPU-0", e)
				if there := mig.NewLayout(append(layout, e)...); table.Legal(there) == nil {
					t.Errorf("%s fits on %s and should not", e, layout)
				} else if err == nil && !contains(layout, e) {
					t.Errorf("%s was made on the full %s", e, layout)
				}
			}
			read := m.card(0)
			if _, err := mig.NewTable(read.Spec); err != nil {
				t.Errorf("what the driver says makes no table: %v", err)
			}
			for _, i := range read.Instances {
				if err := m.Destroy(t.Context(), "GPU-0", i.ID); err != nil {
					t.Fatal(err)
				}
			}
			if left := m.now().Cards[0].Instances; len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

func contains(l mig.Layout, p mig.Placement) bool {
	for _, q := range l {
		if q == p {
			return true
		}
	}
	return false
}

func TestBusyStays(t *testing.T) {
	const h = "H100-80GB"
	c := cardOf(t, 0, h)
	c.Instances = []fakenvml.Instance{
		{ID: 1, Placement: place(t, h, "3g.40gb@0"), Compute: true, UUID: "MIG-a", PID: 42},
		{ID: 2, Placement: place(t, h, "1g.10gb@4"), UUID: "MIG-b"},
	}
	m := play(t, fakenvml.State{Driver: "580.159.03", Cards: []fakenvml.Card{c}})
	read := m.card(0)
	if len(read.Instances) != 2 || read.Instances[0].PIDs[0] != 42 || !read.Instances[0].Whole || read.Instances[0].UUID != "MIG-a" {
		t.Fatalf("read %+v", read.Instances)
	}
	if read.Instances[1].Whole || read.Layout().String() != "3g@0:4" {
		t.Errorf("an instance without compute instance counts: %+v", read.Instances[1])
	}
	if err := m.Destroy(t.Context(), "GPU-0", 1); !errors.Is(err, ErrInUse) {
		t.Errorf("destroying a busy instance: %v", err)
	}
	if err := m.Create(t.Context(), "GPU-0", place(t, h, "2g.20gb@4")); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a place that is taken: %v", err)
	}
	if err := m.Create(t.Context(), "GPU-0", place(t, h, "1g.10gb@4")); err != nil {
		t.Errorf("completing what is half there: %v", err)
	}
	if got := m.card(0).Layout().String(); got != "3g@0:4 1g@4:1" {
		t.Errorf("layout %s", got)
	}
	if err := m.Destroy(t.Context(), "GPU-0", 17); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	if err := m.Destroy(t.Context(), "GPU-9", 1); !errors.Is(err, ErrNoSuchCard) {
		t.Errorf("no such card: %v", err)
	}
}

func TestMode(t *testing.T) {
	const a = "A100-80GB"
	for name, test := range map[string]struct {
		change  fakenvml.ModeChange
		other   int // a process on the other card
		want    error
		mig     bool
		product string
	}{
		"Hopper":                      {fakenvml.AtOnce, 7, nil, true, "H100-80GB"},
		"Ampere":                      {fakenvml.WithReset, 0, nil, true, a},
		"Ampere, another card in use": {fakenvml.WithReset, 7, ErrInUse, false, a},
		"Ampere in a virtual machine": {fakenvml.WithReboot, 0, ErrNeedsReset, false, a},
	} {
		t.Run(name, func(t *testing.T) {
			c, other := cardOf(t, 0, test.product), cardOf(t, 1, test.product)
			c.MIG, c.Change, other.PID = false, test.change, test.other
			m := play(t, fakenvml.State{Driver: "580.159.03", Cards: []fakenvml.Card{c, other}})
			if err := m.SetMode(t.Context(), "GPU-0", true); !errors.Is(err, test.want) {
				t.Errorf("err = %v, want %v", err, test.want)
			}
			read := m.card(0)
			if read.MIG != test.mig || read.PendingMIG != test.mig {
				t.Errorf("mode %v, pending %v, want %v: nothing may wait for the next reboot", read.MIG, read.PendingMIG, test.mig)
			}
		})
	}
}

// TestLostCard: one card falls off, the others are read.
func TestLostCard(t *testing.T) {
	lost := cardOf(t, 0, "H100-80GB")
	lost.Lost = true
	m := play(t, fakenvml.State{Driver: "580.159.03", Cards: []fakenvml.Card{lost, cardOf(t, 1, "H100-80GB")}})
	machine, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(machine.Cards[0].Err, ErrLost) || machine.Cards[1].Err != nil || machine.Cards[1].UUID != "GPU-1" {
		t.Errorf("read %+v", machine.Cards)
	}
	if err := m.Destroy(t.Context(), "GPU-0", 1); !errors.Is(err, ErrLost) {
		t.Errorf("changing it: %v", err)
	}
}

// TestHang: a driver that does not answer costs one timeout, is asked nothing
// more, and is used again once it answers.
func TestHang(t *testing.T) {
	s := fakenvml.State{Driver: "580.159.03", Cards: []fakenvml.Card{cardOf(t, 0, "H100-80GB")}, Hang: true}
	m := play(t, s)
	m.timeout = time.Second
	for range 2 {
		if _, err := m.Read(t.Context()); !errors.Is(err, ErrHanging) {
			t.Fatalf("err = %v", err)
		}
	}
	s.Hang = false
	m.set(s)
	m.timeout = time.Minute
	if _, err := m.Read(t.Context()); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "none.so"), time.Second).Read(t.Context()); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("err = %v", err)
	}
}
