package dcgm

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// totals are the XIDs counted of each GPU: "31×2".
func totals(r *collect.Reading) []string {
	var out []string
	for _, e := range r.Entities {
		if e.Kind != collect.GPU {
			continue
		}
		text := ""
		for _, x := range e.Events.XIDs {
			text += fmt.Sprintf("%d×%d ", x.Code, x.Total)
		}
		out = append(out, text)
	}
	return out
}

// Every XID is counted once: two between readings, the same one read twice, one
// noted late, and whatever becomes of the connection.
func TestXIDsOnce(t *testing.T) {
	m := newMachine(t, 2)
	e := m.engine("127.0.0.1:0")
	var c clock
	c.advance(-time.Hour) // so that all events are in the past
	start := c.now().Truncate(time.Microsecond)
	s := open(t, Options{Mode: Remote, Address: e.Address, now: c.now})
	c.advance(time.Hour)
	watchFields(t, s, 155, 230)
	// Long enough after the source was opened, however long that took.
	at := func(d time.Duration) time.Time { return start.Add(10*time.Minute + d) }
	add := func(dev, code int, at time.Time) {
		m.GPUs[dev].XIDs = append(m.GPUs[dev].XIDs, fakedcgm.XID{Code: code, At: at})
		m.write()
	}
	want := func(what string, want ...string) {
		t.Helper()
		if got := totals(read(t, s)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %q, want %q", what, got, want)
		}
	}
	add(0, 13, start.Add(-48*time.Hour))
	want("before the start", "", "")
	add(0, 31, at(0))
	add(0, 31, at(time.Millisecond))
	add(1, 43, at(0))
	want("three at a time", "31×2 ", "43×1 ")
	want("again", "31×2 ", "43×1 ")
	add(1, 45, at(-time.Millisecond)) // noted after the newest was read
	want("late", "31×2 ", "43×1 45×1 ")

	e.Kill()
	if _, err := s.Read(); err == nil {
		t.Fatal("the host engine is not dead")
	}
	m.GPUs[0].XIDs = append(m.GPUs[0].XIDs, fakedcgm.XID{Code: 79, At: at(time.Second), Kernel: true})
	m.write()
	c.advance(longestDelay)
	m.engine(e.Address)
	want("another host engine, which read the kernel log", "31×2 79×1 ", "43×1 45×1 ")

	// The instances have their GPU's, but not as their own.
	m.partition(1, 2, "3g.40gb", 3, 4)
	r := m.read(s)
	if r.Entities[2].Events != nil || len(r.Entities) != 4 {
		t.Errorf("instance %+v", r.Entities[2])
	}
	want("another layout", "31×2 79×1 ", "43×1 45×1 ")

	// A clock that is set back hides nothing.
	c.advance(-24 * time.Hour)
	add(1, 94, c.now())
	want("clock set back", "31×2 79×1 ", "43×1 45×1 94×1 ")
}

func TestXIDsManyAtOnce(t *testing.T) {
	m := newMachine(t, 8)
	var c clock
	c.advance(-time.Hour) // so that all events are in the past, and after the source was opened
	start := c.now().Add(10 * time.Minute).Truncate(time.Microsecond)
	s := open(t, Options{now: c.now})
	c.advance(time.Hour)
	watchFields(t, s, 230)
	read(t, s)
	for i := range m.GPUs {
		for k := range 60 {
			m.GPUs[i].XIDs = append(m.GPUs[i].XIDs, fakedcgm.XID{Code: 31, At: start.Add(time.Duration(k) * time.Millisecond)})
		}
	}
	for i, got := range totals(m.read(s)) {
		if got != "31×60 " {
			t.Errorf("GPU %d: %q", i, got)
		}
	}
}

// Samples of the throttle reasons come one by one, and a reason that sets in is
// counted once.
func TestClockEvents(t *testing.T) {
	m := newMachine(t, 1)
	m.GPUs[0].Fields[112] = 0x1
	s := m.open(Options{}, 112, collect.AskClockEvents)
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
	m.GPUs[0].Fields[112] = 0x5
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

func TestHealthAndPeers(t *testing.T) {
	m := newMachine(t, 3)
	m.Incidents = []fakedcgm.Incident{{GPU: 1, System: 0x2, Result: 20, Code: 14}, {GPU: 1, System: 0x80, Result: 10, Code: 999},
		{GPU: 2, System: fakedcgm.WatchAll, Result: 20, Code: 131}, {GPU: 2, System: 0x1000, Result: 20, Code: 1}, // of a network adapter
	}
	m.Peers = []fakedcgm.Peer{{From: 0, To: 2, Status: 5}}
	var c clock
	s := m.open(Options{now: c.now}, 155, collect.AskHealth, collect.AskPeers)
	r := read(t, s)
	want := []collect.Incident{
		{Watch: "NVLINK", Result: 20, Error: "DCGM_FR_NVLINK_DOWN"}, {Watch: "THERMAL", Result: 10, Error: "DCGM_FR_999"},
	}
	if r.Entities[0].Health == nil || len(r.Entities[0].Health.Incidents) != 0 || !reflect.DeepEqual(r.Entities[1].Health.Incidents, want) {
		t.Errorf("health %+v and %+v", r.Entities[0].Health, r.Entities[1].Health)
	}
	if got := r.Entities[2].Health.Incidents; !reflect.DeepEqual(got, []collect.Incident{{Watch: "ALL", Result: 20, Error: "DCGM_FR_CONTAINED_ERROR"}}) {
		t.Errorf("health of the whole GPU: %+v", got)
	}
	if p := r.Entities[0].Peers; !reflect.DeepEqual(p, []collect.Peer{{GPU: 1}, {GPU: 2, Status: 5}}) {
		t.Errorf("peers %+v", p)
	}
	// Asked for again when it is time, and not before.
	m.Incidents = nil
	if r := m.read(s); len(r.Entities[1].Health.Incidents) != 2 {
		t.Errorf("asked again at once: %+v", r.Entities[1].Health)
	}
	c.advance(healthEvery)
	if r := read(t, s); len(r.Entities[1].Health.Incidents) != 0 {
		t.Errorf("not asked again: %+v", r.Entities[1].Health)
	}
}

// Without a request there is no call.
func TestNoHealthUnasked(t *testing.T) {
	m := newMachine(t, 2)
	m.Fail = map[string]int{"dcgmHealthCheck": godcgm.DCGM_ST_CONNECTION_NOT_VALID, "dcgmGetNvLinkP2PStatus": godcgm.DCGM_ST_CONNECTION_NOT_VALID, "dcgmHealthSet": godcgm.DCGM_ST_CONNECTION_NOT_VALID}
	s := m.open(Options{}, 155)
	if r := read(t, s); r.Entities[0].Health != nil || r.Entities[0].Peers != nil || r.Entities[0].Events != nil {
		t.Errorf("%+v", r.Entities[0])
	}
}

// In MIG mode DCGM records an XID of the instance or the compute instance that had it. They
// count on the GPU, as they do where NVML is read.
func TestXIDsOfInstances(t *testing.T) {
	m := newMachine(t, 2)
	m.partition(1, 2, "3g.40gb", 3, 4)
	m.GPUs[1].Instances[1].UUIDs = []string{fakenvml.MIGUUID(1, 9)}
	s := m.open(Options{}, 155, 230)
	read(t, s)
	now := time.Now()
	m.GPUs[1].XIDs = []fakedcgm.XID{{Code: 31, At: now}}
	m.GPUs[1].Instances[0].XIDs = []fakedcgm.XID{{Code: 31, At: now.Add(time.Millisecond)}}
	m.GPUs[1].Instances[1].XIDs = []fakedcgm.XID{{Code: 43, At: now, Compute: true}, {Code: 94, At: now}}
	r := m.read(s)
	if got := totals(r); !reflect.DeepEqual(got, []string{"", "31×2 43×1 94×1 "}) {
		t.Errorf("got %q", got)
	}
	if number(t, r.Entities[2], 230) != 31 || number(t, r.Entities[3], 230) != 94 {
		t.Errorf("instances %+v", r.Entities[2:])
	}
}

// One line of the kernel log counts once, whatever DCGM makes of its time.
func TestKernelLogAndRestarts(t *testing.T) {
	m := newMachine(t, 1)
	e := m.engine("127.0.0.1:0")
	var c clock
	s := open(t, Options{Mode: Remote, Address: e.Address, now: c.now}, 155, 230)
	read(t, s)
	now := time.Now()
	m.GPUs[0].XIDs = []fakedcgm.XID{{Code: 119, At: now, Kernel: true}, {Code: 119, At: now.Add(3 * time.Millisecond)}}
	m.write()
	for i, shift := range []time.Duration{0, 0, time.Microsecond, -4 * time.Second} {
		if i > 0 {
			e.Kill()
			if _, err := s.Read(); err == nil {
				t.Fatal("the host engine is not dead")
			}
			m.KernelShift = shift
			m.write()
			c.advance(longestDelay)
			e = m.engine(e.Address)
		}
		if got := totals(read(t, s)); !reflect.DeepEqual(got, []string{"119×1 "}) {
			t.Fatalf("after %d restarts: %q", i, got)
		}
	}
}

// health is gpu_healthy of a reading: the reasons.
func health(r *collect.Reading) (out []string) {
	for _, h := range collect.Health(r) {
		if !h.Known {
			h.Reason = "unknown"
		}
		out = append(out, h.Reason)
	}
	return out
}

// A GPU that had no XID since it is listened to is healthy, without any value of field 230.
func TestNoXIDIsHealthy(t *testing.T) {
	newMachine(t, 1)
	s := open(t, Options{}, 155, 230)
	for range 3 {
		r := read(t, s)
		if has(r.Entities[0], 230) || !reflect.DeepEqual(health(r), []string{"ok"}) || r.Dropped[collect.DropBlank] != 0 {
			t.Errorf("%+v: health %q, dropped %v", r.Entities[0].Values, health(r), r.Dropped)
		}
	}
}

// A GPU is reset while no host engine runs. The new one knows the XIDs of the kernel log
// only, and reads values: the GPU is healthy again.
func TestHealthReturnsWithTheHostEngine(t *testing.T) {
	for _, code := range []int{48, 79, 120} {
		t.Run(fmt.Sprint("XID ", code), func(t *testing.T) {
			m := newMachine(t, 2)
			e := m.engine("127.0.0.1:0")
			s := open(t, Options{Mode: Remote, Address: e.Address}, 155, 230)
			read(t, s)
			m.GPUs[0].XIDs = []fakedcgm.XID{{Code: code, At: time.Now(), Kernel: code != 48}}
			m.write()
			sick := fmt.Sprint("xid_", code)
			if got := health(read(t, s)); !reflect.DeepEqual(got, []string{sick, "ok"}) {
				t.Fatalf("after the XID: %q", got)
			}
			e.Kill()
			if _, err := s.Read(); err == nil {
				t.Fatal("the host engine is not dead")
			}
			atOnce(s)
			m.engine(e.Address)
			r := read(t, s)
			if got := health(r); !reflect.DeepEqual(got, []string{"ok", "ok"}) {
				t.Errorf("after the reset: %q", got)
			}
			if got := totals(r)[0]; got != fmt.Sprintf("%d×1 ", code) {
				t.Errorf("after the reset: counted %q", got)
			}
			// What happens from now on counts.
			m.GPUs[0].XIDs = append(m.GPUs[0].XIDs, fakedcgm.XID{Code: 48, At: time.Now()})
			if got := health(m.read(s)); !reflect.DeepEqual(got, []string{"xid_48", "ok"}) {
				t.Errorf("after another XID: %q", got)
			}
		})
	}
}

// A connection that breaks is no reset: the host engine still knows the XID.
func TestHealthSurvivesTheConnection(t *testing.T) {
	m := newMachine(t, 1)
	s := open(t, Options{Mode: Remote, Address: m.engine("127.0.0.1:0").Address}, 155, 230)
	read(t, s)
	m.GPUs[0].XIDs = []fakedcgm.XID{{Code: 48, At: time.Now()}}
	m.read(s)
	m.Fail = map[string]int{"dcgmEntitiesGetLatestValues": godcgm.DCGM_ST_CONNECTION_NOT_VALID}
	m.write()
	if _, err := s.Read(); err == nil {
		t.Fatal("the connection is not broken")
	}
	m.Fail = nil
	m.write()
	atOnce(s)
	if got := health(read(t, s)); !reflect.DeepEqual(got, []string{"xid_48"}) {
		t.Errorf("got %q", got)
	}
}

// atOnce lets the next reading connect without a wait. A test's clock that is ahead would make
// values old.
func atOnce(s *reader) { s.backoff = backoff{} }
