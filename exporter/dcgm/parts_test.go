package dcgm

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collecttest"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// addDevices puts a switch, links and a CPU into the machine.
func (m *machine) addDevices() {
	part := func(kind int, id uint32, values ...string) fakenvml.Part {
		p := fakenvml.Part{Kind: kind, ID: id, Values: fakenvml.Lines{}}
		for i := 0; i < len(values); i += 2 {
			p.Values[values[i]] = values[i+1]
		}
		return p
	}
	m.Parts = []fakenvml.Part{
		part(fakedcgm.KindSwitch, 0, "f.858", "41"),
		part(fakedcgm.KindLink, fakedcgm.LinkID(fakedcgm.KindGPU, 1, 3), "f.585", "4"), // down
		part(fakedcgm.KindLink, fakedcgm.LinkID(fakedcgm.KindGPU, 1, 17), "up", "1", "f.585", "3"),
		part(fakedcgm.KindLink, fakedcgm.LinkID(fakedcgm.KindSwitch, 0, 63), "up", "1", "f.780", "5"),
		part(fakedcgm.KindCPU, 1, "cores", "72 143", "f.1110", "55", "f.1120", "3000"),
		part(fakedcgm.KindCore, 73, "f.1120", "3100"),
	}
	m.write()
}

// smalls is a layout of seven instances.
const smalls = "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6"

var deviceFields = []uint16{203, 585, 780, 858, 1110, 1120}

// When any part of DCGM fails, the GPUs' values stay.
func TestAPartFails(t *testing.T) {
	all := append(slices.Clone(deviceFields), 230, 112, 1001, collect.AskHealth, collect.AskPeers)
	for call, check := range map[string]func(*collect.Reading) bool{
		"dcgmGetCpuHierarchy":              func(r *collect.Reading) bool { return len(r.Devices) == 4 },
		"dcgmGetNvLinkLinkStatus":          func(r *collect.Reading) bool { return len(r.Devices) == 3 },
		"dcgmGetGpuInstanceHierarchy":      func(r *collect.Reading) bool { return len(r.Devices) == 5 },
		"dcgmGetValuesSince_v2":            func(r *collect.Reading) bool { return len(r.Entities[0].Events.XIDs) == 0 },
		"dcgmHealthCheck":                  func(r *collect.Reading) bool { return r.Entities[0].Health == nil },
		"dcgmHealthSet":                    func(r *collect.Reading) bool { return r.Entities[0].Health == nil },
		"dcgmGetNvLinkP2PStatus":           func(r *collect.Reading) bool { return r.Entities[0].Peers == nil },
		"dcgmProfGetSupportedMetricGroups": func(r *collect.Reading) bool { return !has(r.Entities[0], 1001) },
		"dcgmUpdateAllFields":              func(r *collect.Reading) bool { return len(r.Devices) == 5 },
	} {
		t.Run(call, func(t *testing.T) {
			m := newMachine(t, 2)
			m.addDevices()
			m.Lines = fakenvml.Lines{"fail." + call: "-3"}
			s := m.open(Options{}, all...)
			r := read(t, s)
			if number(t, r.Entities[1], 203) != 87 || !check(r) {
				t.Error(collecttest.Text(r, collecttest.Options{}))
			}
			m.Lines = nil
			m.write()
			if call == "dcgmGetCpuHierarchy" || call == "dcgmGetNvLinkLinkStatus" {
				if r := read(t, s); len(r.Devices) != 5 {
					t.Errorf("not back: %q", collecttest.Text(r, collecttest.Options{}))
				}
			}
		})
	}
}

// GPUs that cannot be identified are read again with each reading, and logged once.
func TestValuesThatFail(t *testing.T) {
	m := newMachine(t, 2)
	fails := fakenvml.Lines{"fail.dcgmEntitiesGetLatestValues": "-3"}
	m.Lines = fails
	var log strings.Builder
	s := m.open(Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, 203)
	for range 3 {
		if r := read(t, s); len(r.Entities) != 0 || r.Dropped[collect.DropError] < 2 {
			t.Errorf("%+v", r)
		}
	}
	if n := strings.Count(log.String(), "part not available"); n != 2 {
		t.Errorf("logged %d times of the GPUs' identity and values:\n%s", n, &log)
	}
	m.Lines = nil
	if r := m.read(s); len(r.Entities) != 2 {
		t.Errorf("not back: %+v", r)
	}
	for _, m.Lines = range []fakenvml.Lines{fails, nil, fails, nil} { // logged each time that they begin to fail
		m.read(s)
	}
	if n := strings.Count(log.String(), `part not available" part=values`); n != 3 {
		t.Errorf("logged %d times of 3:\n%s", n, &log)
	}
}

// The links between GPUs are read every ten seconds, and a failure stays until they answer.
func TestPeersThatFail(t *testing.T) {
	m := newMachine(t, 2)
	m.Lines = fakenvml.Lines{"fail.dcgmGetNvLinkP2PStatus": "-8"}
	var log strings.Builder
	c := &clock{}
	s := m.open(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), now: c.now}, 203, collect.AskPeers)
	for range 12 {
		read(t, s)
		c.advance(2 * time.Second)
	}
	if text := log.String(); strings.Count(text, "part not available") != 1 || strings.Contains(text, "available again") {
		t.Errorf("logged:\n%s", text)
	}
	m.Lines = nil
	c.advance(peersEvery)
	if m.read(s); !strings.Contains(log.String(), "available again") {
		t.Errorf("not back:\n%s", &log)
	}
}

func TestRefusedTogetherReadApart(t *testing.T) {
	gone, dead := &codeError{"reading", -1}, &codeError{"reading", godcgm.DCGM_ST_CONNECTION_NOT_VALID}
	for name, test := range map[string]struct {
		refused map[int]error // by entity
		failed  []int
		err     error
	}{
		"all well":      {nil, nil, nil},
		"one refused":   {map[int]error{4: gone}, []int{4}, nil},
		"three refused": {map[int]error{0: gone, 4: gone, 9: gone}, []int{0, 4, 9}, nil},
		"gone for good": {map[int]error{4: gone, 5: dead}, []int{4}, dead},
	} {
		t.Run(name, func(t *testing.T) {
			var got, failed []int
			err := inParts(10, 3, func(first, n int) error {
				var refusal error
				for i := first; i < first+n; i++ {
					if err := test.refused[i]; err != nil && refusal == nil {
						refusal = err
					}
				}
				if refusal == nil {
					for i := range n {
						got = append(got, first+i)
					}
				}
				return refusal
			}, func(i int, _ error) { failed = append(failed, i) })
			if !errors.Is(err, test.err) || !slices.Equal(failed, test.failed) {
				t.Errorf("%v, failed %v", err, failed)
			}
			if err == nil && len(got)+len(failed) != 10 {
				t.Errorf("read %v", got)
			}
		})
	}
}

// DCGM takes 127 fields a list; 160 are wanted and have values.
func TestManyFields(t *testing.T) {
	table := fieldTable(t)
	m := newMachine(t, 3)
	var fields []uint16
	for _, id := range slices.Sorted(maps.Keys(table)) {
		if f := table[id]; id >= 300 && f.FieldType == 'i' && f.EntityLevel == godcgm.FE_GPU && len(fields) < 160 {
			fields = append(fields, id)
			m.set(2, id, id)
		}
	}
	s := m.open(Options{Address: m.engine(onTCP)}, fields...)
	e := read(t, s).Entities[2]
	if len(e.Values) != len(fields) {
		t.Fatalf("%d values of %d fields", len(e.Values), len(fields))
	}
	for i, v := range e.Values {
		if v.Field != fields[i] || v.Number != float64(fields[i]) {
			t.Errorf("value %d: %+v, want field %d", i, v, fields[i])
		}
	}
}

// A host engine without NVML is explained, and noticed once it has NVML.
func TestWithoutDriver(t *testing.T) {
	m := newMachine(t, 2)
	gpus, refusal := m.GPUs, fmt.Sprint(godcgm.DCGM_ST_NVML_NOT_LOADED)
	m.GPUs, m.Lines = nil, fakenvml.Lines{"fail.dcgmGetGpuInstanceHierarchy": refusal, "fail.dcgmWatchFields": refusal}
	var c clock
	var output strings.Builder
	s := m.open(Options{Address: m.engine(onTCP), now: c.now, Log: slog.New(slog.NewTextHandler(&output, nil))}, defaults...)
	_, err := s.Read()
	if !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "NVML") || !strings.Contains(err.Error(), "driver is not installed") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(output.String(), "layout read") {
		t.Errorf("without a driver there is no layout:\n%s", output.String())
	}
	m.GPUs, m.Lines = gpus, nil
	m.write()
	if r := read(t, s); len(r.Entities) != 2 || !strings.Contains(output.String(), "layout read") {
		t.Errorf("%+v\n%s", r.Entities, output.String())
	}
}

// A host engine that has no NVML, but lists GPUs, refuses a watch. That refusal is the explanation: the watch is not
// halved down to single fields.
func TestWatchRefusedForLackOfDriver(t *testing.T) {
	m := newMachine(t, 2)
	m.Lines = fakenvml.Lines{"fail.dcgmWatchFields": fmt.Sprint(godcgm.DCGM_ST_NVML_NOT_LOADED)}
	var output strings.Builder
	s := m.open(Options{Log: slog.New(slog.NewTextHandler(&output, nil))}, defaults...)
	if _, err := s.Read(); !errors.Is(err, ErrNoDriver) {
		t.Errorf("got %v", err)
	}
	if strings.Contains(output.String(), "not watched") {
		t.Errorf("it is halved:\n%s", output.String())
	}
	if made := s.session; made != nil {
		t.Errorf("the session is kept: %+v", made)
	}
}

// A GPU whose release is requested before the first reading is not opened by that reading: an exporter that restarts
// while a GPU is repartitioned must not open it.
func TestQuiesceBeforeTheFirstReading(t *testing.T) {
	m := newMachine(t, 2)
	m.partition(0, "3g.40gb@0 3g.40gb@4")
	s := open(t, Options{Address: m.engine(onTCP)}, 155, 252)
	require.NoError(t, s.Quiesce([]string{m.GPUs[0].UUID}))
	if r := read(t, s); len(r.Entities) != 1 || r.Entities[0].UUID != m.GPUs[1].UUID {
		t.Errorf("the first reading has %+v", r.Entities)
	}
	before := &s.session.watches[0]
	read(t, s)
	if &s.session.watches[0] != before {
		t.Error("the second reading set up its watches again")
	}
}

// A host engine that has released a GPU keeps returning its last values, which show nothing about the GPU's present
// state.
func TestOldValuesAreNoSignOfLife(t *testing.T) {
	m := newMachine(t, 1)
	s := open(t, Options{}, 155)
	dev := read(t, s).Entities[0]
	if dev.Lost || !has(dev, 155) {
		t.Fatalf("%+v", dev)
	}
	m.GPUs[0].Lost = true
	m.write()
	for _, age := range []time.Duration{0, time.Minute} {
		seen := dev
		now := seen.Values[0].Time.Add(age)
		s.detectLoss(0, &seen, now)
		if seen.Lost != (age > 0) {
			t.Errorf("with values %s old: lost %v", age, seen.Lost)
		}
	}
}

// An embedded host engine has NVML's handles of every GPU. It ends before a release is reported, and starts again when
// no GPU is released.
func TestQuiesceEmbedded(t *testing.T) {
	m := newMachine(t, 2)
	s := open(t, Options{}, 155)
	read(t, s)
	for range 2 {
		require.NoError(t, s.Quiesce([]string{m.GPUs[0].UUID}))
		if hostEngineRuns() {
			t.Error("the host engine runs after the release")
		}
		if _, err := s.Read(); !errors.Is(err, ErrReleased) || hostEngineRuns() {
			t.Errorf("a reading begins it again: %v", err)
		}
		require.NoError(t, s.Quiesce(nil))
		if r := read(t, s); len(r.Entities) != 2 {
			t.Errorf("%+v", r.Entities)
		}
	}
}

// hostEngineRuns queries the library.
func hostEngineRuns() bool { _, err := list(kindGPU); return err == nil }

// DCGM logs each read of a value that is not watched, so only watched values are read.
func TestOnlyWatchedIsRead(t *testing.T) {
	log := logging(t)
	m := newMachine(t, 3)
	m.partition(1, "3g.40gb@0 3g.40gb@4")
	m.GPUs[0].Values["profiled"] = "1001"
	m.GPUs[2].Values["profiled"] = ""
	m.addDevices()
	s := open(t, Options{}, append(slices.Clone(defaults), deviceFields...)...)
	for range 5 {
		read(t, s)
	}
	if text := log(); strings.Contains(text, "unwatched") {
		t.Error(text)
	}
}

// A host engine logs the findings of its health watches with each answer, and reports an XID until it ends.
func TestHealthThatFailsIsAskedForRarely(t *testing.T) {
	log := logging(t)
	m := newMachine(t, 2)
	m.Lines = fakenvml.Lines{"incident.0": "1 -1 20 104"}
	m.write()
	c := &clock{}
	s := open(t, Options{Address: m.engine(onTCP), now: c.now}, 155, collect.AskHealth)
	for range 60 {
		if r := read(t, s); len(r.Entities[1].Health) != 1 {
			t.Fatalf("%+v", r.Entities[1].Health)
		}
		c.advance(time.Second)
	}
	if n := strings.Count(log(), "incident"); n != 2 {
		t.Errorf("logged %d times in a minute, want 2", n)
	}
}

// logging makes the library and host engines write a log, and returns its text.
func logging(t *testing.T) (log func() string) {
	file := filepath.Join(t.TempDir(), "log")
	t.Setenv(fakedcgm.EnvLog, file)
	return func() string {
		t.Helper()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
}

// A host engine logs each read of a value that is not supported. A field that no GPU supports is read rarely, and
// is served once it is supported.
func TestAbsentFieldsAreReadRarely(t *testing.T) {
	log := logging(t)
	m := newMachine(t, 2)
	m.set(0, 449, "!status:-6")
	m.set(1, 449, "!status:-6")
	m.write()
	c := &clock{}
	s := open(t, Options{Address: m.engine(onTCP), now: c.now}, 155, 449)
	logged := func() int { return strings.Count(log(), "unsupported 1 0 449\n") }
	read(t, s)
	before := logged()
	for range 5 {
		if r := read(t, s); !has(r.Entities[1], 155) {
			t.Errorf("%+v", r.Entities)
		}
	}
	if n := logged(); n != before {
		t.Errorf("%d lines in the host engine's log, and %d five readings later", before, n)
	}
	if c.advance(absentEvery); len(read(t, s).Entities) != 2 || logged() != before+1 {
		t.Errorf("%d lines after a minute, want one more than %d", logged(), before)
	}
	// One GPU supports the field, as after the fabric manager's start.
	m.set(1, 449, 7)
	m.write()
	c.advance(absentEvery)
	if e := read(t, s).Entities; number(t, e[1], 449) != 7 || has(e[0], 449) {
		t.Errorf("%+v", e)
	}
}

// The MIG hierarchy is read when the instances change, not with each reading.
func TestHierarchyIsReadOnChange(t *testing.T) {
	log := logging(t)
	m := newMachine(t, 2)
	m.partition(0, "3g.40gb@0 3g.40gb@4")
	s := m.open(Options{}, 155)
	asked := func(what string, want int) {
		t.Helper()
		for range 5 {
			read(t, s)
		}
		if got := strings.Count(log(), "dcgmGetGpuInstanceHierarchy"); got != want {
			t.Errorf("%s: read %d times, want %d", what, got, want)
		}
	}
	asked("at first", 1)
	m.partition(1, smalls)
	m.write()
	asked("another GPU is partitioned", 2)
	m.GPUs[0].Instances[0].Computes = []fakenvml.Compute{{Slices: 1, UUID: fakenvml.MIGUUID(0, 0)}, {ID: 1, Slices: 1, UUID: fakenvml.MIGUUID(0, 9)}}
	m.write()
	asked("another compute instance", 3)
	s.hierarchy.read = time.Now().Add(-hierarchyEvery)
	asked("after a while", 4)
}

// The requests to a host engine in a minute of readings: the values and the last XIDs with each reading, the devices
// every five seconds, and the XIDs of each entity when there is a new one. Each request for values takes a millisecond,
// in which the library clears four megabytes.
func TestRequests(t *testing.T) {
	log := logging(t)
	m := newMachine(t, 2)
	c := &clock{}
	s := m.open(Options{Address: m.engine(onTCP), now: c.now})
	// Samples stay fresh. Fields that are sampled at different intervals are in the same requests.
	s.Watch([]uint16{155, 230, 252}, time.Hour, map[uint16]time.Duration{252: 2 * time.Hour})
	minute := func() map[string]int {
		m.read(s)
		before := log()
		for range 60 {
			c.advance(time.Second)
			_, err := s.Read()
			require.NoError(t, err)
		}
		calls := map[string]int{}
		for line := range strings.Lines(strings.TrimPrefix(log(), before)) {
			calls[strings.TrimSpace(line)]++
		}
		return calls
	}
	want := map[string]int{
		"dcgmGetEntityGroupEntities": 3 * 12, "dcgmGetGpuInstanceHierarchy": 1,
		"dcgmGetValuesSince_v2":       1, // half a minute after the first
		"dcgmEntitiesGetLatestValues": 60 + 12,
	}
	if quiet := minute(); !maps.Equal(quiet, want) {
		t.Errorf("%v, want %v", quiet, want)
	}
	m.partition(0, "3g.40gb@0 3g.40gb@4")
	want["dcgmEntitiesGetLatestValues"] = 60*3 + 12*2 // of GPUs, of instances, and XIDs of compute instances; identities of GPUs and instances
	if quiet := minute(); !maps.Equal(quiet, want) {
		t.Errorf("%v, want %v", quiet, want)
	}
	m.GPUs[0].XIDs = append(m.GPUs[0].XIDs, fakenvml.XID{Code: 31, On: "1/0", At: c.now().UnixMicro()})
	if n := minute()["dcgmGetValuesSince_v2"]; n != 1 {
		t.Errorf("XIDs are requested %d times in the minute after one was read, want 1", n)
	}
	if r := read(t, s); len(r.Entities[0].Events.XIDs) != 1 {
		t.Errorf("%+v", r.Entities[0].Events)
	}
}

// Instances that are added and removed are seen within five seconds.
func TestInstancesAreFollowed(t *testing.T) {
	m := newMachine(t, 1)
	m.partition(0, "3g.40gb@0 3g.40gb@4")
	c := &clock{}
	s := m.open(Options{now: c.now}, 155, 252)
	seen := func(after time.Duration, want int) {
		t.Helper()
		c.advance(after)
		m.write()
		r, err := s.Read()
		require.NoError(t, err)
		if n := len(r.Entities) - 1; n != want {
			t.Errorf("%d instances, want %d", n, want)
		}
	}
	seen(0, 2)
	both := m.GPUs[0].Instances
	for n := range both {
		m.GPUs[0].Instances = both[:1-n]
		seen(4*time.Second, 2-n)
		seen(time.Second, 1-n)
	}
	m.GPUs[0].Instances = both
	seen(5*time.Second, 2)
	m.Lines["fail.dcgmGetGpuInstanceHierarchy"] = "-3"
	m.GPUs[0].Instances = both[:1]
	seen(5*time.Second, 2) // an answer that fails shows nothing
}

// After XID 119 DCGM answers and has no values until it is started again.
func TestStuckEmbeddedHostEngine(t *testing.T) {
	for _, remote := range []bool{false, true} {
		m := newMachine(t, 1)
		var c clock
		o := Options{now: c.now}
		if remote {
			o.Address = m.engine(onTCP)
		}
		s := open(t, o, 155)
		read(t, s)
		m.GPUs[0].Values = nil
		m.write()
		c.advance(2 * stuckAfter)
		if _, err := s.Read(); (err == nil) != remote {
			t.Errorf("remote %v: %v", remote, err)
		}
		require.NoError(t, s.Close())
	}
}

// A field with an interval of its own is sampled at that interval. It keeps its value meanwhile, with DCGM's time,
// however often it is read.
func TestPacedFields(t *testing.T) {
	newMachine(t, 1)
	s := open(t, Options{})
	s.Watch([]uint16{155, 251, 252}, 100*time.Millisecond, map[uint16]time.Duration{251: time.Hour})
	taken := func(field uint16) time.Time {
		v, known := read(t, s).Entities[0].Value(field)
		if !known {
			t.Fatalf("field %d has no value", field)
		}
		return v.Time
	}
	slow, fast := taken(251), taken(252)
	until(t, func() error {
		if !taken(252).After(fast) {
			return errors.New("no further sample")
		}
		return nil
	})
	if !taken(251).Equal(slow) {
		t.Error("the slower field is sampled as often")
	}
}
