package collect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/internal/require"
)

var now = time.Unix(1_800_000_000, 0)

// lines compiles a reading with a counters file and returns the DCGM series. A pod has the second GPU.
func lines(t *testing.T, r *Reading, csv string, change func(*CompatOptions)) []string {
	t.Helper()
	parsed, err := counters.Parse("test.csv", strings.NewReader(csv))
	require.NoError(t, err)
	o := Options{Node: "n", Interval: time.Second, Compat: CompatOptions{Mode: CompatExact, Counters: parsed.Fields, Hostname: "h"}}
	change(&o.Compat)
	text, _ := NewCompiler(o).Compile(r, Attribution{
		Allocations: [][]Allocated{nil, {pod("p", Allocated{})}}, Pods: map[PodName]string{{"ns", "p"}: `app="x"`}, Jobs: map[JobPlace][]string{{1, -1}: {"j"}},
	}).Append(nil, now, false)
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "DCGM_") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func plainGPU(i int) Entity {
	return Entity{Kind: GPU, GPU: i, UUID: "GPU-" + string(rune('a'+i)), Model: "L40S", DriverVersion: "580"}
}

func TestDeviceSeries(t *testing.T) {
	value := func(field uint16, n float64) []Value { return []Value{{Field: field, Number: n, Time: now}} }
	r := &Reading{Taken: now, Entities: []Entity{plainGPU(0), plainGPU(1)}, Devices: []Entity{
		{Kind: Switch, DCGMID: 2, DriverVersion: "580", Values: value(858, 41)},
		{Kind: SwitchLink, DCGMID: 63, DriverVersion: "580", Parent: 2, Values: value(780, 5)},
		{Kind: GPULink, DCGMID: 17, DriverVersion: "580", UUID: "GPU-b", Model: "L40S", Parent: 1, Values: value(585, 3)},
		{Kind: CPU, DCGMID: 1, DriverVersion: "580", Values: append(value(1120, 3000), Value{Field: 1141, Text: "C1", IsText: true, Time: now})},
		{Kind: Core, DCGMID: 73, DriverVersion: "580", Parent: 1, Values: []Value{{Field: 1120, Number: 3100, Time: now.Add(-3 * time.Second)}}}, // stale
		{Kind: Core, DCGMID: 74, DriverVersion: "580", Parent: 1, Values: value(1120, 3100)},
	}}
	csv := "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, x\nDCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX, counter, x\n" +
		"DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER, counter, x\nDCGM_FI_DEV_CPU_CLOCK_CURRENT, gauge, x\n" +
		"DCGM_FI_DEV_CPU_MODEL, label, x\nDCGM_FI_DRIVER_VERSION, label, x\n"
	const driver = `,DCGM_FI_DRIVER_VERSION="580"`
	got, want := lines(t, r, csv, func(*CompatOptions) {}), []string{
		`DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="nvswitch2",hostname="h"` + driver + `} 41`,
		`DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{nvlink="63",nvswitch="nvswitch2",hostname="h"` + driver + `} 5`,
		`DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER{nvlink="17",gpu="1",gpu_uuid="GPU-b",device="nvidia1",model_name="L40S",hostname="h"` + driver + `,container="c",hpc_job="j",namespace="ns",pod="p",app="x"} 3`,
		`DCGM_FI_DEV_CPU_CLOCK_CURRENT{cpu="1",hostname="h",DCGM_FI_DEV_CPU_MODEL="C1"` + driver + `} 3000`,
		`DCGM_FI_DEV_CPU_CLOCK_CURRENT{cpucore="74",cpu="1",hostname="h"` + driver + `} 3100`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	selected := lines(t, r, csv, func(c *CompatOptions) {
		c.Switches, _ = ParseSelection("i:63")
		c.CPUs, _ = ParseSelection("g")
		c.Devices, _ = ParseSelection("g:0")
	})
	if len(selected) != 2 || !strings.Contains(selected[0], `nvlink="63"`) || !strings.Contains(selected[1], `{cpu="1"`) {
		t.Errorf("selected %q", selected)
	}
}

// A snapshot does not change.
func TestEventLogSnapshots(t *testing.T) {
	log := NewEventLog(5 * time.Minute)
	add := func(at time.Duration) {
		log.AddXID(Event{now.Add(at), 31, ""})
		log.addClocks(Event{now.Add(at), 4, ""})
	}
	add(0)
	add(2 * time.Second)
	first := log.Snapshot(now)
	add(time.Second)
	add(3 * time.Second)
	if len(first.RecentXIDs) != 2 || !first.RecentXIDs[1].Time.Equal(now.Add(2*time.Second)) || len(first.ClockSamples) != 2 {
		t.Errorf("a snapshot changed: %+v", first)
	}
	second := log.Snapshot(now)
	if len(second.RecentXIDs) != 4 || len(second.ClockSamples) != 3 || second.XIDs[0].Total != 4 {
		t.Errorf("%+v", second)
	}
	for i, e := range second.RecentXIDs {
		if !e.Time.Equal(now.Add(time.Duration(i) * time.Second)) {
			t.Errorf("not in order: %+v", second.RecentXIDs)
		}
	}
	late := log.Snapshot(now.Add(time.Hour))
	if len(late.RecentXIDs) != 0 || len(late.ClockSamples) != 1 || late.XIDs[0].Total != 4 {
		t.Errorf("after the window: %+v", late)
	}
	// After the clock was set back by a day, older samples are new.
	log.addClocks(Event{now.Add(-24 * time.Hour), 8, ""})
	if back := log.Snapshot(now.Add(-24 * time.Hour)); len(back.ClockSamples) != 1 || back.ClockSamples[0].Code != 8 || len(late.ClockSamples) != 1 {
		t.Errorf("after the clock was set back: %+v", back)
	}
	// A known XID is not counted again, however old it is.
	if log.AddXID(Event{now.Add(2 * time.Second), 31, ""}) {
		t.Error("an XID is counted again after the window")
	}
	if log.AddXID(Event{now.Add(time.Hour), 79, ""}); log.AddXID(Event{now.Add(time.Hour), 79, ""}) {
		t.Error("the same XID is new twice")
	}
}

// After a new connection DCGM returns all XIDs that it keeps, more than the log remembers.
func TestXIDFloodCountsOnce(t *testing.T) {
	log := NewEventLog(time.Hour)
	for range 2 {
		for i := range maxXIDs + 3 {
			log.AddXID(Event{now.Add(time.Duration(i) * time.Millisecond), 31, ""})
		}
	}
	if got := log.Snapshot(now).XIDs[0].Total; got != maxXIDs+3 {
		t.Errorf("%d XIDs counted, %d were there", got, maxXIDs+3)
	}
}

func TestHealthReasons(t *testing.T) {
	at := func(code float64, ago time.Duration) Value {
		return Value{Field: FieldXID, Number: code, Time: now.Add(-ago)}
	}
	events := func(returned time.Duration, xids ...Event) *Events {
		log := NewEventLog(time.Hour)
		for _, x := range xids {
			log.AddXID(x)
		}
		if returned > 0 {
			log.Away(now.Add(-returned))
			log.Observe(&Entity{}, true, now)
		}
		return log.Snapshot(now)
	}
	remap := func(n float64) Value { return Value{Field: fieldRowRemapFailure, Number: n, Time: now} }
	wantsNothing := Value{Field: fieldRecoveryAction, Time: now}
	failed := func(watches ...string) (incidents []Incident) {
		for _, watch := range watches {
			incidents = append(incidents, Incident{watch, HealthFail, "x"})
		}
		return incidents
	}
	for name, test := range map[string]struct {
		entity Entity
		want   string
	}{
		"nothing known":            {Entity{}, ""},
		"listened to, no XID":      {Entity{Events: &Events{Listening: true}}, "ok"},
		"not listened to":          {Entity{Events: &Events{}}, ""},
		"wants a reset":            {Entity{Values: []Value{{Field: fieldRecoveryAction, Number: 1, Time: now}}, Events: &Events{Listening: true}}, "recovery_reset"},
		"wants a reboot":           {Entity{Values: []Value{{Field: fieldRecoveryAction, Number: 2, Time: now}}}, "recovery_reboot"},
		"wants its bus reset":      {Entity{Values: []Value{{Field: fieldRecoveryAction, Number: 6, Time: now}}}, "recovery_bus_reset"},
		"wants the system back up": {Entity{Values: []Value{{Field: fieldRecoveryAction, Number: 7, Time: now}}}, "recovery_system_reboot"},
		"its peers want something": {Entity{Values: []Value{{Field: fieldRecoveryAction, Number: 3, Time: now}}, Events: &Events{Listening: true}}, "ok"},
		"wants nothing":            {Entity{Values: []Value{{Field: fieldRecoveryAction, Time: now}}, Events: &Events{Listening: true}}, "ok"},
		"all of it fails":          {Entity{Health: failed("ALL")}, "health_all"},
		"all of it, and came back": {Entity{Health: failed("ALL"), Events: events(time.Second, Event{now.Add(-time.Minute), 79, ""})}, "ok"},
		"all, before we listened":  {Entity{Values: []Value{wantsNothing}, Health: failed("ALL"), Events: &Events{Listening: true}}, "ok"},
		"all, and not listened to": {Entity{Values: []Value{wantsNothing}, Health: failed("ALL"), Events: &Events{}}, "health_all"},
		"all, and no driver's say": {Entity{Health: failed("ALL"), Events: &Events{Listening: true}}, "health_all"},
		"a watch, wants nothing":   {Entity{Values: []Value{wantsNothing}, Health: failed("ALL", "MEM"), Events: &Events{Listening: true}}, "health_mem"},
		"an XID, wants nothing":    {Entity{Values: []Value{wantsNothing}, Health: failed("ALL"), Events: events(0, Event{now.Add(-time.Second), 48, ""})}, "xid_48"},
		"a watch, and came back":   {Entity{Health: failed("ALL", "MEM"), Events: events(time.Second)}, "health_mem"},
		"no XID":                   {Entity{Values: []Value{at(0, 0)}}, "ok"},
		"an application's":         {Entity{Values: []Value{at(13, time.Minute)}}, "ok"},
		"off the bus":              {Entity{Values: []Value{at(79, time.Minute)}}, "xid_79"},
		"hidden by a later one":    {Entity{Values: []Value{at(45, time.Second)}, Events: events(0, Event{now.Add(-time.Minute), 79, ""}, Event{now.Add(-time.Second), 45, ""})}, "xid_79"},
		"the newest of two":        {Entity{Events: events(0, Event{now.Add(-time.Minute), 79, ""}, Event{now.Add(-time.Second), 48, ""})}, "xid_48"},
		"came back since":          {Entity{Values: []Value{at(79, time.Minute)}, Events: events(time.Second, Event{now.Add(-time.Minute), 79, ""})}, "ok"},
		"again after it came back": {Entity{Events: events(time.Minute, Event{now.Add(-time.Second), 79, ""})}, "xid_79"},
		"lost":                     {Entity{Lost: true, Values: []Value{at(0, 0)}}, "lost"},
		"lost and says why":        {Entity{Lost: true, Values: []Value{at(79, time.Second)}}, "xid_79"},
		"rows not remapped":        {Entity{Values: []Value{at(0, 0), remap(1)}}, "row_remap_failure"},
		"rows fine":                {Entity{Values: []Value{remap(0)}}, "ok"},
		"a watch fails":            {Entity{Health: failed("NVLINK")}, "health_nvlink"},
		"a watch warns":            {Entity{Health: []Incident{{"NVLINK", HealthWarn, "x"}}}, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			reason, taken := healthOf(&test.entity, now)
			if taken.IsZero() {
				reason = ""
			}
			if reason != test.want {
				t.Errorf("got %q, want %q", reason, test.want)
			}
		})
	}
}

// DCGM reads XIDs 79, 119 and 120 from NVML and from the kernel log, and from the latter again after each restart, each
// time with another time.
func TestXIDsOfTheKernelLogCountOnce(t *testing.T) {
	log := NewEventLog(time.Hour)
	add := func(code int64, at time.Duration, new bool) {
		t.Helper()
		if log.AddXID(Event{now.Add(at), code, ""}) != new {
			t.Errorf("XID %d at %s: new is not %v", code, at, new)
		}
	}
	for _, code := range []int64{79, 119, 120} {
		add(code, 0, true)
		add(code, 3*time.Millisecond, false)
		add(code, -7*time.Second, false)
		add(code, 10*time.Minute, true)
	}
	add(31, 0, true)
	add(31, 3*time.Millisecond, true)
	add(31, time.Hour, true)
	log.Snapshot(now.Add(24 * time.Hour))
	add(79, time.Second, false) // however long ago
	if log.Knows(Event{now, 79, ""}) || !log.Knows(Event{now.Add(time.Hour), 31, ""}) {
		t.Error("the kernel log proves a host engine, or an XID does not")
	}
}

func TestReturns(t *testing.T) {
	energy := func(joules float64, at time.Duration) *Entity {
		return &Entity{Values: []Value{{Field: fieldEnergyMilli, Number: joules, Time: now.Add(at)}}}
	}
	log := NewEventLog(time.Hour)
	observe := func(e *Entity, answers bool, at time.Duration, want bool) {
		t.Helper()
		if log.Observe(e, answers, now.Add(at)) != want {
			t.Errorf("at %s: returned is not %v", at, want)
		}
	}
	observe(energy(10, 0), true, 0, false)
	observe(energy(11, 1), true, 1, false)
	observe(energy(5, 2), true, 2, true) // the driver was loaded again
	observe(energy(6, 3), true, 3, false)
	log.Away(time.Time{})
	observe(&Entity{}, false, 4, false)
	observe(energy(7, 5), true, 5, true)
	if got := log.Snapshot(now).Returned; !got.Equal(now.Add(5)) {
		t.Errorf("returned at %s", got)
	}
	log.Away(now.Add(6)) // then the source was restarted
	observe(energy(8, 9), true, 9, true)
	if got := log.Snapshot(now).Returned; !got.Equal(now.Add(6)) {
		t.Errorf("returned at %s", got)
	}
	observe(energy(9, -time.Hour), true, -time.Hour, false) // the clock was set back
	observe(energy(1, 1-time.Hour), true, 1-time.Hour, true)
}

// A counter with an interval of its own becomes stale by that interval, set by the user or by DCGM.
func TestStaleByItsOwnInterval(t *testing.T) {
	gpu := plainGPU(0)
	gpu.Values = []Value{{Field: 84, Number: 1, Time: now.Add(15 * time.Second)}, {Field: 150, Number: 40, Time: now.Add(-time.Minute)}, {Field: 155, Number: 300, Time: now.Add(-time.Minute)}}
	o := Options{Node: "n", Interval: time.Second, Compat: CompatOptions{Mode: CompatExact, Counters: []counters.Field{
		{ID: 150, Name: "DCGM_FI_DEV_GPU_TEMP", Kind: counters.Gauge, Every: time.Minute}, {ID: 155, Name: "DCGM_FI_DEV_POWER_USAGE", Kind: counters.Gauge},
		{ID: 84, Name: "DCGM_FI_DEV_INFOROM_CONFIG_VALID", Kind: counters.Gauge},
	}}}
	page := NewCompiler(o).Compile(&Reading{Taken: now, Entities: []Entity{gpu}}, Attribution{})
	for _, age := range []time.Duration{0, 80 * time.Second, 100 * time.Second} {
		text, _ := page.Append(nil, now.Add(age), false)
		if has := strings.Contains(string(text), "DCGM_FI_DEV_INFOROM_CONFIG_VALID{"); has != (age < 90*time.Second) {
			t.Errorf("after %s: what DCGM reads every 30 s is there: %v", age, has)
		}
		if has := strings.Contains(string(text), "DCGM_FI_DEV_GPU_TEMP{"); has != (age < 90*time.Second) || strings.Contains(string(text), "DCGM_FI_DEV_POWER_USAGE{") {
			t.Errorf("after %s: the slower one is there: %v", age, has)
		}
	}
}

// Names of health errors are DCGM's, by number. An error newer than DCGM's last one has its number.
func TestHealthErrors(t *testing.T) {
	for code, want := range map[int]string{0: "DCGM_FR_OK", 89: "DCGM_FR_EUD_BINARY_PERMISSIONS", 132: "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT", 133: "DCGM_FR_CPU_SDC_TEST_FAILED", 134: "DCGM_FR_UNKNOWN(134)"} {
		if got := HealthError(code); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
}
