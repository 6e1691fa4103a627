package collect

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// computed are the DCGM_EXP_* series, by their counters number: the DCGM fields that each is
// made of, and how. Its own number stands for what DCGM is asked beside fields: a source that
// cannot give it counts it as not supported.
var computed = map[uint16]struct {
	from []uint16
	add  func(c *CompatOptions, m *Moment, page *pageFamily)
}{
	counters.XIDErrorsCount:   {[]uint16{fieldXID}, addXIDWindow},
	counters.XIDErrorsTotal:   {[]uint16{fieldXID}, addXIDTotals},
	counters.ClockEventsCount: {[]uint16{fieldClockEvents, AskClockEvents}, addClockWindow},
	counters.ClockEventsTotal: {[]uint16{fieldClockEvents, AskClockEvents}, addClockTotals},
	counters.GPUHealthStatus:  {[]uint16{AskHealth}, addHealthStatus},
	counters.P2PStatus:        {[]uint16{AskPeers}, addPeerStatus},
}

// eachEvents calls add for the labels of every series about a GPU whose events are known. Under
// CompatExact a partitioned GPU has none: each of its instances, which of is then, shows its own
// XIDs and what is the GPU's, clock reasons too. Of a GPU it is empty.
func (c *CompatOptions) eachEvents(m *Moment, add func(e *Events, of string, l *labelSet)) {
	for i := range m.subjects {
		s, of := &m.subjects[i], ""
		events := m.subjects[s.device].entity.Events
		if s.entity.Kind == Instance {
			of = strconv.Itoa(s.entity.InstanceID)
		}
		if events == nil || of != "" && c.Mode == CompatOnce {
			continue
		}
		for _, l := range c.holders(s) {
			add(events, of, l)
		}
	}
}

// eachWholeGPU calls add once for every GPU, a partitioned one too.
func (c *CompatOptions) eachWholeGPU(m *Moment, add func(device *Entity, l *labelSet)) {
	for s := range m.gpus {
		if !c.Devices.Flexible() && !c.Devices.Major(s.entity.GPU) {
			continue
		}
		if s.split {
			add(s.entity, s.labels)
			continue
		}
		for _, l := range c.holders(s) {
			add(s.entity, l)
		}
	}
}

// dcgm returns the DCGM labels and further ones, given as name and value.
func (l *labelSet) dcgm(further ...string) string {
	b := []byte(l.compat)
	for i := 0; i+1 < len(further); i += 2 {
		b = appendLabel(b, further[i], further[i+1])
	}
	return string(b)
}

// What a source is asked for beside DCGM fields, as numbers among the fields
// given to Watch. A source that cannot give one counts it as not supported.
const (
	AskClockEvents = counters.ClockEventsCount // Events.ClockSamples and ClockChanges
	AskHealth      = counters.GPUHealthStatus  // Entity.Health
	AskPeers       = counters.P2PStatus        // Entity.Peers
)

// xidErrors has a series for each code that a GPU has had.
func xidErrors() family {
	return family{desc: metric.GPUXIDErrorsTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.gpus {
			if s.entity.Events == nil {
				continue // not known, which is not none
			}
			totals := s.entity.Events.totals("")
			for _, code := range slices.Sorted(maps.Keys(totals)) {
				add(s.labels.with(d, metric.LabelXID, strconv.FormatInt(code, 10)), float64(totals[code]), m.taken)
			}
		}
	}}
}

// xid returns the DCGM labels of the XID series, which dcgm-exporter gives the
// code and its meaning.
func (l *labelSet) xid(code int) string {
	return l.dcgm("err_code", strconv.Itoa(code), "err_msg", cmp.Or(xidMeanings()[code], "Unknown Error"))
}

//go:embed xids.txt
var xidText string

// xidMeanings are NVIDIA's short texts of the XIDs.
var xidMeanings = sync.OnceValue(func() map[int]string {
	meanings := map[int]string{}
	for line := range strings.Lines(xidText) {
		number, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if code, err := strconv.Atoi(number); err == nil {
			meanings[code] = text
		}
	}
	return meanings
})

// eventWindow is the default window of windowed counts, as in dcgm-exporter.
const eventWindow = 5 * time.Minute

// windowLabel is the value of window_size_in_ms.
func windowLabel(window time.Duration) (time.Duration, string) {
	if window <= 0 {
		window = eventWindow
	}
	return window, strconv.FormatInt(window.Milliseconds(), 10)
}

// addXIDWindow counts the XIDs of the window by code. A GPU without any has one
// series without a code, at 0.
func addXIDWindow(c *CompatOptions, m *Moment, page *pageFamily) {
	window, label := windowLabel(c.XIDWindow)
	c.eachEvents(m, func(e *Events, of string, l *labelSet) {
		counts := map[int64]int{}
		for _, x := range since(e.RecentXIDs, m.taken.Add(-window)) {
			if concerns(x.Instance, of) {
				counts[x.Code]++
			}
		}
		for _, code := range slices.Sorted(maps.Keys(counts)) {
			page.add(l.dcgm("window_size_in_ms", label, "xid", strconv.FormatInt(code, 10)), float64(counts[code]), m.taken)
		}
		if len(counts) == 0 {
			page.add(l.dcgm("window_size_in_ms", label), 0, m.taken)
		}
	})
}

// addXIDTotals has a series for each code seen since the start.
func addXIDTotals(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachEvents(m, func(e *Events, of string, l *labelSet) {
		totals := e.totals(of)
		for _, code := range slices.Sorted(maps.Keys(totals)) {
			page.add(l.dcgm("xid", strconv.FormatInt(code, 10)), float64(totals[code]), m.taken)
		}
	})
}

// clockReasons are DCGM's bits of field 112 and their names in DCGM's tools.
var clockReasons = [...]clockReason{
	{0x1, "gpu_idle"}, {0x2, "clocks_setting"}, {0x4, "power_cap"}, {0x8, "hw_slowdown"}, {0x10, "sync_boost"},
	{0x20, "sw_thermal"}, {0x40, "hw_thermal"}, {0x80, "hw_power_brake"}, {0x100, "display_clocks"},
}

type clockReason struct {
	bit  int64
	name string
}

// addClockWindow counts the samples of the window in which a reason was set, so
// the number depends on the sampling interval: as in dcgm-exporter, where a GPU without any
// has no series either.
func addClockWindow(c *CompatOptions, m *Moment, page *pageFamily) {
	window, label := windowLabel(c.ClockEventsWindow)
	c.eachEvents(m, func(e *Events, _ string, l *labelSet) {
		samples := since(e.ClockSamples, m.taken.Add(-window))
		for _, r := range clockReasons {
			n := 0
			for _, s := range samples {
				if s.Code&r.bit != 0 {
					n++
				}
			}
			if n > 0 {
				page.add(l.dcgm("window_size_in_ms", label, "clock_event", r.name), float64(n), m.taken)
			}
		}
	})
}

// addClockTotals counts how often each reason has set in since the start.
func addClockTotals(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachEvents(m, func(e *Events, _ string, l *labelSet) {
		for _, x := range e.ClockChanges {
			if i := slices.IndexFunc(clockReasons[:], func(r clockReason) bool { return r.bit == x.Code }); i >= 0 {
				page.add(l.dcgm("clock_event", clockReasons[i].name), float64(x.Total), m.taken)
			}
		}
	})
}

// Results of DCGM's health watches, as the series shows them.
const (
	HealthPass = 0
	HealthWarn = 10
	HealthFail = 20
)

// Incident is a finding of DCGM's health watches on a GPU.
type Incident struct {
	Watch  string // "PCIE", "NVLINK", …: one of HealthWatches
	Result int    // HealthWarn or HealthFail
	Error  string // "DCGM_FR_…"
}

// HealthReport is the result of DCGM's health watches of a GPU.
type HealthReport struct {
	Incidents []Incident
}

// HealthWatches are DCGM's health watches of a GPU. "ALL" has what concerns the whole GPU,
// as the gravest XIDs do.
var HealthWatches = []string{"PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER", "ALL"}

// of returns the worst incident of a watch, or a pass.
func (h *HealthReport) of(watch string) Incident {
	worst := Incident{Watch: watch, Result: HealthPass, Error: "DCGM_FR_OK"}
	for _, i := range h.Incidents {
		if i.Watch == watch && i.Result > worst.Result {
			worst = i
		}
	}
	return worst
}

// addHealthStatus has a series for each watch of each GPU.
func addHealthStatus(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachWholeGPU(m, func(device *Entity, l *labelSet) {
		if device.Health == nil {
			return
		}
		for _, watch := range HealthWatches {
			i := device.Health.of(watch)
			page.add(l.dcgm("health_watch", watch, "health_error_code", i.Error), float64(i.Result), m.taken)
		}
	})
}

// Peer is the state of the NVLink path from a GPU to another.
type Peer struct {
	GPU    int // the other GPU
	Status int // NVML's peer-to-peer status; 0 is fine
}

// peerStatus names NVML's states as dcgm-exporter does.
func peerStatus(status int) string {
	names := []string{
		"OK", "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey", "NotSupported",
	}
	if status < 0 || status >= len(names) {
		return "Unknown"
	}
	return names[status]
}

// addPeerStatus has a series for each pair of GPUs.
func addPeerStatus(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachWholeGPU(m, func(device *Entity, l *labelSet) {
		for _, p := range device.Peers {
			page.add(l.dcgm("peer_gpu", strconv.Itoa(p.GPU), "link_status", peerStatus(p.Status)), float64(p.Status), m.taken)
		}
	})
}
