package dcgm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collecttest"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

func until(t testing.TB, attempt func() error) {
	t.Helper()
	await.For(t, time.Minute, "a reading", attempt)
}

// The reading does not depend on how the host engine is reached.
func TestGPUs(t *testing.T) {
	want := ""
	for i := range 8 {
		want += fmt.Sprintf("%d GPU-%d: (NVIDIA H100 80GB HBM3 at 00000000:%02X:00.0, index %d, minor %d, driver 580.65.06, 0 slices) "+
			"150=55 155=321.5 156=1000000 203=87 204=40 251=80559 252=1000 1001=0.75\n", i, i, i+1, i, i+1)
	}
	want += "dropped: 96 blank\n" // of 21 default fields 12 have no value, and there is no last XID
	const socket = "/run/nvidia/engine"
	for name, address := range map[string]string{
		"embedded": "", "library path": "", "tcp": onTCP, "tcp://": onTCP, "unix://": socket, "path": socket,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, 8)
			o := Options{}
			if name == "library path" {
				o.LibraryPath = "libdcgm.so.4"
			}
			if address != "" {
				o.Address = m.engine(address)
			}
			if strings.HasSuffix(name, "://") {
				o.Address = name + o.Address
			}
			before := time.Now().Truncate(time.Microsecond)
			r := read(t, open(t, o, defaults...))
			if got := collecttest.Text(r, collecttest.Options{Identity: true}); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			for _, e := range r.Entities {
				for _, v := range e.Values {
					if v.Time.Before(before) || v.Time.After(time.Now()) {
						t.Errorf("field %d has time %v", v.Field, v.Time)
					}
				}
			}
		})
	}
}

// An instance that was created again under its old numbers is recognised by its UUID.
func TestRemadeInstance(t *testing.T) {
	m := newMachine(t, 1)
	m.partition(0, "1g.10gb@0")
	s := m.open(Options{}, 1001)
	read(t, s)
	i := &m.GPUs[0].Instances[0]
	i.Computes, i.Placement.Start = fakenvml.Whole(fakenvml.MIGUUID(0, 77)), 5
	m.write()
	until(t, func() error {
		if e := read(t, s).Entities[1]; e.InstanceUUID != fakenvml.MIGUUID(0, 77) || e.Start != 5 {
			return fmt.Errorf("still %+v", e)
		}
		return nil
	})
}

func TestLostGPU(t *testing.T) {
	m := newMachine(t, 2)
	s := open(t, Options{}, 155, 230)
	if r := read(t, s); has(r.Entities[0], 230) {
		t.Errorf("XID before: %+v", r.Entities[0])
	}
	at := time.Now().Truncate(time.Microsecond)
	m.GPUs[0].Lost, m.GPUs[0].XIDs = true, []fakenvml.XID{{Code: 79, At: at.UnixMicro()}}
	m.write()
	var lost collect.Entity
	until(t, func() error { // a watch interval
		if lost = read(t, s).Entities[0]; has(lost, 155) {
			return errors.New("the lost GPU still has a value")
		}
		return nil
	})
	if lost.UUID != m.GPUs[0].UUID || lost.Model == "" || !lost.Lost {
		t.Errorf("lost GPU %+v", lost)
	}
	if len(lost.Values) != 1 || lost.Values[0].Number != 79 || !lost.Values[0].Time.Equal(at) {
		t.Errorf("the lost GPU's XID is not reported: %+v", lost.Values)
	}
	if other := read(t, s).Entities[1]; number(t, other, 155) != 321.5 || other.Lost {
		t.Errorf("the other GPU suffers: %+v", other)
	}
	m.GPUs[0].Lost = false
	m.write()
	until(t, func() error {
		e := read(t, s).Entities[0]
		if !has(e, 155) || e.Lost || !e.Events.Returned.After(at) {
			return fmt.Errorf("not back: %+v", e)
		}
		return nil
	})
}

func TestRules(t *testing.T) {
	newMachine(t, 1)
	s := open(t, Options{})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if again, err := New(Options{}); err != nil {
		t.Errorf("after Close: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Address: "localhost:"}); err == nil {
		t.Error("an address that is none is accepted")
	}
}

func TestWatchAgain(t *testing.T) {
	newMachine(t, 1)
	s := open(t, Options{}, 203)
	read(t, s)
	many := make([]uint16, 0, 300)
	for f := range uint16(300) {
		many = append(many, f+200)
	}
	watchFields(t, s, many...)
	r := read(t, s)
	if e := r.Entities[0]; number(t, e, 203) != 87 || number(t, e, 252) != 1000 || has(e, 155) {
		t.Errorf("%+v", e.Values)
	}
}

// Samples of the throttle reasons come one by one, and a reason that begins is counted once.
func TestClockEvents(t *testing.T) {
	m := newMachine(t, 1)
	m.set(0, 112, 0x1)
	s := m.open(Options{}, 112, 230)
	samples := func(n int) *collect.Events {
		var events *collect.Events
		until(t, func() error {
			if events = read(t, s).Entities[0].Events; len(events.ClockSamples) < n {
				return fmt.Errorf("%d samples", len(events.ClockSamples))
			}
			return nil
		})
		return events
	}
	if e := samples(2); len(e.ClockChanges) != 0 || e.ClockSamples[0].Code != 1 {
		t.Errorf("a reason from before is counted as set in: %+v", e)
	}
	m.set(0, 112, 0x5)
	m.write()
	n := len(samples(0).ClockSamples)
	e := samples(n + 3)
	if len(e.ClockChanges) != 1 || e.ClockChanges[0].Code != 4 || e.ClockChanges[0].Total != 1 {
		t.Errorf("%+v", e.ClockChanges)
	}
	for i := 1; i < len(e.ClockSamples); i++ {
		if !e.ClockSamples[i].Time.After(e.ClockSamples[i-1].Time) {
			t.Errorf("sample %d is not newer: %+v", i, e.ClockSamples)
		}
	}
	if r := read(t, s); number(t, r.Entities[0], 112) != 5 {
		t.Error("the field itself has no value")
	}
}
