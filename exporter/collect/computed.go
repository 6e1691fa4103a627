package collect

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// computed are the DCGM_EXP_* series by their counters number: the DCGM field that each is
// made of, and the function that adds it. AskHealth and AskPeers are no DCGM fields: they
// stand for the other things that a source is asked for.
var computed = map[uint16]struct {
	from uint16
	add  func(c *CompatOptions, m *Moment, page *pageFamily)
}{
	counters.XIDErrorsCount: {FieldXID, func(c *CompatOptions, m *Moment, page *pageFamily) {
		c.addCounts(m, page, "xid", c.XIDWindow, (*Events).recentXIDs)
	}},
	counters.XIDErrorsTotal: {FieldXID, func(c *CompatOptions, m *Moment, page *pageFamily) {
		c.addCounts(m, page, "xid", forever, func(e *Events, of string, _ time.Time) map[int64]int { return e.totals(of) })
	}},
	counters.ClockEventsCount: {fieldClockEvents, func(c *CompatOptions, m *Moment, page *pageFamily) {
		c.addCounts(m, page, "clock_event", c.ClockEventsWindow, (*Events).clockSamples)
	}},
	counters.ClockEventsTotal: {fieldClockEvents, func(c *CompatOptions, m *Moment, page *pageFamily) {
		c.addCounts(m, page, "clock_event", forever, (*Events).clockTotals)
	}},
	counters.GPUHealthStatus: {AskHealth, addHealthStatus},
	counters.P2PStatus:       {AskPeers, addPeerStatus},
}

// MadeOf returns the field that a counter shows or is computed from.
func MadeOf(f *counters.Field) uint16 {
	if c, ok := computed[f.ID]; ok {
		return c.from
	}
	return f.ID
}

// forever is the window of what is counted since the start.
const forever time.Duration = -1

// eventWindow is the default window of windowed counts, as in dcgm-exporter.
const eventWindow = 5 * time.Minute

// addCounts adds a series for each code (XID or clock reason) that has been counted on an entity
// whose events are known. count gets the instance's id in of, "" for a GPU. With -d f and
// CompatExact a partitioned GPU has no series. Each of its instances shows its own XIDs, the
// GPU's XIDs and the GPU's clock reasons. As in dcgm-exporter, an entity without an XID in the
// window has one series without a code, at 0; without a clock reason it has none.
func (c *CompatOptions) addCounts(m *Moment, page *pageFamily, label string, window time.Duration, count func(e *Events, of string, since time.Time) map[int64]int) {
	var windowed []string
	if window = cmp.Or(window, eventWindow); window != forever {
		windowed = []string{"window_size_in_ms", strconv.FormatInt(window.Milliseconds(), 10)}
	}
	for i := range m.subjects {
		s, of := &m.subjects[i], ""
		events := m.subjects[s.device].entity.Events
		if s.entity.Kind == Instance {
			of = strconv.Itoa(s.entity.InstanceID)
		}
		if events == nil || !s.selected || of != "" && c.Mode == CompatOnce {
			continue
		}
		counts := count(events, of, m.taken.Add(-window))
		for _, l := range c.holders(s) {
			for _, code := range slices.Sorted(maps.Keys(counts)) {
				name := strconv.FormatInt(code, 10)
				if label == "clock_event" {
					name = clockReason(code)
				}
				if name != "" {
					page.add(l.dcgm(slices.Concat(windowed, []string{label, name})...), float64(counts[code]), m.taken)
				}
			}
			if len(counts) == 0 && window != forever && label == "xid" {
				page.add(l.dcgm(windowed...), 0, m.taken)
			}
		}
	}
}

// recentXIDs returns how often each XID has occurred on an instance since a time; for ""
// on the GPU.
func (e *Events) recentXIDs(of string, oldest time.Time) map[int64]int {
	counts := map[int64]int{}
	for _, x := range since(e.RecentXIDs, oldest) {
		if concerns(x.Instance, of) {
			counts[x.Code]++
		}
	}
	return counts
}

// clockSamples returns in how many samples each clock reason was set. The numbers depend on
// the sampling interval, as in dcgm-exporter.
func (e *Events) clockSamples(_ string, oldest time.Time) map[int64]int {
	counts := map[int64]int{}
	for _, s := range since(e.ClockSamples, oldest) {
		for set := s.Code; set != 0; set &= set - 1 {
			counts[set&-set]++
		}
	}
	return counts
}

// clockTotals are how often each clock reason has set in.
func (e *Events) clockTotals(string, time.Time) map[int64]int {
	counts := map[int64]int{}
	for _, x := range e.ClockChanges {
		counts[x.Code] = x.Total
	}
	return counts
}

// clockReasons are the bits of field 112, from 1 on, by their names in DCGM's tools. The last two, of NVML 13.4
// (nvml.h of go-nvml v0.13.4-1), have none there: DCGM passes the driver's bits on.
var clockReasons = [...]string{
	"gpu_idle", "clocks_setting", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks",
	"board_limit", "reliability",
}

// clockReason is a bit's name; empty where it has none.
func clockReason(bit int64) string {
	if i := bits.TrailingZeros64(uint64(bit)); i < len(clockReasons) {
		return clockReasons[i]
	}
	return ""
}

// eachWholeGPU calls add for every GPU, also for one without DCGM series of its own: a partitioned
// GPU, or with -d i.
func (c *CompatOptions) eachWholeGPU(m *Moment, add func(device *Entity, l *labelSet)) {
	for s := range m.gpus {
		for _, l := range c.holders(s) {
			add(s.entity, l)
		}
	}
}

// dcgm returns the DCGM labels and further ones, given as name and value.
func (l *labelSet) dcgm(further ...string) string {
	return joinLabels(l.compat, labelText(further...))
}

// What a source is asked for beside DCGM fields, as numbers among the fields
// given to Watch. A source that cannot give one counts it as not supported.
const (
	AskHealth = counters.GPUHealthStatus // Entity.Health
	AskPeers  = counters.P2PStatus       // Entity.Peers
)

// xid returns the DCGM labels of the XID series, which dcgm-exporter gives the
// code and its meaning.
func (l *labelSet) xid(code int) string {
	return l.dcgm("err_code", strconv.Itoa(code), "err_msg", cmp.Or(xidMeanings()[code], "Unknown Error"))
}

//go:embed xids.txt
var xidText string

// xidMeanings are NVIDIA's short texts of the XIDs.
var xidMeanings = sync.OnceValue(func() map[int]string { return numbered(xidText) })

//go:embed healtherrors.txt
var healthErrorText string

var healthErrors = sync.OnceValue(func() map[int]string { return numbered(healthErrorText) })

// HealthError is DCGM's name of a health error, or one with its number, as dcgm-exporter has it.
func HealthError(code int) string {
	return "DCGM_FR_" + cmp.Or(healthErrors()[code], fmt.Sprintf("UNKNOWN(%d)", code))
}

// numbered reads lines of a number and its text. Others are comments.
func numbered(lines string) map[int]string {
	texts := map[int]string{}
	for line := range strings.Lines(lines) {
		number, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(number); err == nil {
			texts[n] = text
		}
	}
	return texts
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
	Error  string // from HealthError
}

// HealthWatches are DCGM's health watches of a GPU. "ALL" has what concerns the whole GPU,
// as the gravest XIDs do.
var HealthWatches = []string{"PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER", "ALL"}

// worstOf returns the worst incident of a watch, of equal ones the last, or a pass.
func worstOf(watch string, incidents []Incident) Incident {
	worst := Incident{Watch: watch, Result: HealthPass, Error: "DCGM_FR_OK"}
	for _, i := range incidents {
		if i.Watch == watch && i.Result >= worst.Result {
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
			i := worstOf(watch, device.Health)
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
