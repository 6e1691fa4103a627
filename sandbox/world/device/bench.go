package device

import (
	"math"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// DCGM field ids for which the sandbox has values, in DCGM's units (dcgm_fields.h of go-dcgm v1.4601.1, 2026-11-29).
const (
	FieldSMClock     = 100  // MHz
	FieldMemClock    = 101  // MHz
	FieldClockEvents = 112  // bits: why clocks are throttled
	FieldMemTemp     = 140  // °C
	FieldTemp        = 150  // °C
	FieldPower       = 155  // W
	FieldEnergy      = 156  // mJ since the driver was loaded
	FieldUtil        = 203  // percent; not supported under MIG
	FieldCopyUtil    = 204  // percent; not supported under MIG
	FieldTotal       = 250  // MiB
	FieldFree        = 251  // MiB
	FieldUsed        = 252  // MiB
	FieldGraphics    = 1001 // ratio of time the engine was active
	FieldSMActive    = 1002 // ratio
	FieldTensor      = 1004 // ratio
	FieldDRAM        = 1005 // ratio
	driver           = "580.95.05"
	instanceOverhead = 15 // MiB that an empty instance or GPU already uses
)

// clocksIdle is the bit of FieldClockEvents for clocks that are low because the GPU is idle. The sandbox's
// GPUs never overheat.
const clocksIdle = 1

// Load is the load of one device.
type Load struct {
	Busy        float64 // 0 … 1 of the time
	MemoryBytes int64
}

// Bench computes the measurements of a node's GPUs over time; energy and temperature depend on the past. It
// is not safe for concurrent use.
type Bench struct {
	gpus map[string]*past // by UUID
	last time.Time
}

type past struct {
	millijoules float64
	celsius     float64
}

// NewBench starts at the given time with cold GPUs.
func NewBench(now time.Time) *Bench { return &Bench{gpus: map[string]*past{}, last: now} }

func (b *Bench) past(uuid string) *past {
	if b.gpus[uuid] == nil {
		b.gpus[uuid] = &past{celsius: 30}
	}
	return b.gpus[uuid]
}

// Measure returns the state of the node's GPUs at now, for the given loads by device id.
func (b *Bench) Measure(m *node.Machine, loads map[string]Load, now time.Time) fakenvml.State {
	passed := max(0, now.Sub(b.last).Seconds())
	b.last = now
	state := fakenvml.State{Driver: driver}
	for _, c := range m.GPUs() {
		device := fakenvml.GPU{
			UUID: c.UUID, PCIBusID: c.PCIBusID, Minor: c.Index, Name: driverName(m.Product()), MemoryMiB: m.Model().MemoryMiB, MIG: c.MIG,
		}
		if m.Table() != nil {
			device.Spec = m.Table().Spec()
		}
		total := loads[c.UUID]
		for _, in := range c.Instances {
			l := loads[in.UUID]
			share := float64(in.Placement.Profile.Compute) / float64(m.Table().ComputeSlices())
			total.Busy += l.Busy * share
			total.MemoryBytes += l.MemoryBytes
			device.Instances = append(device.Instances, instance(in, m.Table(), l))
		}
		p := b.past(c.UUID)
		fields := p.fields(watts(m.Product()), total, passed)
		memory(fields, total.MemoryBytes, m.Model().MemoryMiB)
		if c.MIG { // the driver does not report these for a partitioned GPU
			fields[FieldUtil], fields[FieldCopyUtil] = math.NaN(), math.NaN()
		}
		device.Values = fakedcgm.Fields(fields)
		state.GPUs = append(state.GPUs, device)
	}
	return state
}

func instance(in node.Instance, table *mig.Table, l Load) fakenvml.Instance {
	fields := map[uint16]float64{}
	activity(fields, l.Busy)
	memory(fields, l.MemoryBytes, table.MemoryMiB(in.Placement.Profile))
	return fakenvml.Instance{ID: in.ID, Placement: in.Placement, Computes: fakenvml.Whole(in.UUID), Values: fakedcgm.Fields(fields)}
}

// power is the power of a product in watts: idle, and at full load.
type power struct{ idle, full float64 }

func watts(product string) power {
	switch {
	case strings.Contains(product, "H100"), strings.Contains(product, "H200"):
		return power{70, 700}
	case strings.Contains(product, "B200"):
		return power{120, 1000}
	case strings.Contains(product, "A100"):
		return power{50, 400}
	}
	return power{35, 350}
}

func (p *past) fields(w power, l Load, passed float64) map[uint16]float64 {
	busy := min(1, max(0, l.Busy))
	draw := w.idle + (w.full-w.idle)*0.85*busy
	p.millijoules += draw * passed * 1000
	// The temperature approaches the value for this power, with a time constant of ten seconds.
	p.celsius += (30 + 50*draw/w.full - p.celsius) * (1 - math.Exp(-passed/10))
	f := map[uint16]float64{
		FieldPower: round(draw, 3), FieldEnergy: math.Floor(p.millijoules),
		FieldTemp: math.Round(p.celsius), FieldMemTemp: math.Round(p.celsius + 8),
		FieldSMClock: 345, FieldMemClock: 2619,
		FieldUtil: math.Round(100 * busy), FieldCopyUtil: math.Round(60 * busy),
	}
	f[FieldClockEvents] = clocksIdle
	if busy > 0 {
		f[FieldSMClock], f[FieldClockEvents] = 1980, 0
	}
	activity(f, busy)
	return f
}

// activity sets the profiling fields. Decoding is limited by memory, so the tensor cores are less active than
// the engine.
func activity(f map[uint16]float64, busy float64) {
	busy = min(1, max(0, busy))
	f[FieldGraphics] = round(busy, 4)
	f[FieldSMActive] = round(busy*0.9, 4)
	f[FieldTensor] = round(busy*0.25, 4)
	f[FieldDRAM] = round(busy*0.6, 4)
}

func memory(f map[uint16]float64, bytes int64, totalMiB int) {
	used := min(float64(totalMiB), float64(bytes>>20)+instanceOverhead)
	f[FieldTotal], f[FieldUsed], f[FieldFree] = float64(totalMiB), used, float64(totalMiB)-used
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

// driverName is the product name as the driver writes it; GFD's label has dashes.
func driverName(label string) string { return strings.ReplaceAll(label, "-", " ") }
