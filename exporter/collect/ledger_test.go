package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed reads an exposition back: series to value, per family.
func parsed(t testing.TB, page *Page, now time.Time) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text(page, now)))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// world is a machine of two GPUs with random faults: layouts change, GPUs vanish, values are missing, counters begin
// again, passes are skipped.
type world struct {
	*rand.Rand
	now         time.Time
	energy      [2]float64 // mJ
	drawn       [2]float64 // true joules since the start
	partitioned [2]bool
}

func (w *world) step() *Reading {
	gap := time.Second
	if w.IntN(20) == 0 {
		gap = time.Duration(1+w.IntN(10)) * time.Second
	}
	w.now = w.now.Add(gap)
	r := &Reading{Taken: w.now}
	for i := range 2 {
		watts := 100 + 600*w.Float64()
		w.energy[i] += watts * gap.Seconds() * 1000
		w.drawn[i] += watts * gap.Seconds()
		if w.IntN(50) == 0 { // the driver is loaded again, some time within the gap
			w.energy[i] = watts * gap.Seconds() * 1000 * w.Float64()
		}
		if w.IntN(30) == 0 {
			w.partitioned[i] = !w.partitioned[i]
		}
		if w.IntN(40) == 0 {
			continue // the GPU is gone for a moment
		}
		device := Entity{Kind: GPU, GPU: i, UUID: fmt.Sprintf("GPU-%d", i), GPUMaxCompute: 7, Values: []Value{
			{Field: fieldClockEvents, Number: float64(w.IntN(512)), Time: w.now},
			{Field: fieldPowerWatts, Number: watts, Time: w.now},
			{Field: fieldEnergyMilli, Number: w.energy[i], Time: w.now},
			{Field: FieldEngineActive, Number: w.Float64(), Time: w.now},
		}}
		if w.IntN(10) == 0 {
			device.Values = device.Values[:w.IntN(3)]
		}
		r.Entities = append(r.Entities, device)
		if !w.partitioned[i] {
			continue
		}
		for j, slices := range []int{3, 2, 1, 1, 0} { // the slices of the last one are unknown
			instance := Entity{Kind: Instance, GPU: i, UUID: device.UUID, InstanceID: j, Profile: fmt.Sprint(slices, "g"),
				ComputeSlices: slices, GPUMaxCompute: 7}
			if w.IntN(10) > 0 {
				instance.Values = []Value{{Field: fieldPowerWatts, Number: watts, Time: w.now}, {Field: FieldEngineActive, Number: min(1, 2*w.Float64()), Time: w.now}}
			}
			r.Entities = append(r.Entities, instance)
		}
	}
	return r
}

// In any case a counter never falls, the shares of a GPU sum to at most 1, its busy seconds grow no faster than time,
// and the GPU's own quantities are on the GPU alone.
func TestLedgerProperties(t *testing.T) {
	for seed := range uint64(8) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 4)), now: start}
		c := NewCompiler(Options{Node: "n", Interval: time.Second, Compat: CompatOptions{Mode: CompatOff}})
		last, lastBusy, lastAt := map[string]float64{}, map[string]float64{}, w.now
		for step := range 300 {
			if step%97 == 96 { // new counters
				c.Reload(CompatOptions{Mode: CompatOff})
			}
			page := c.Compile(w.step(), Attribution{})
			families := parsed(t, page, w.now)
			share, busy, there := map[string]float64{}, map[string]float64{}, map[string]bool{}
			for name, family := range families {
				for _, m := range family.GetMetric() {
					key, v := name+fmt.Sprint(m.GetLabel()), m.GetCounter().GetValue()+m.GetGauge().GetValue()
					if there[key] { // as a GPU's own quantity on its instances would be
						t.Fatalf("seed %d step %d: %s stands there twice", seed, step, key)
					}
					there[key] = true
					if strings.HasSuffix(name, "_total") {
						if before, ok := last[key]; ok && v < before {
							t.Fatalf("seed %d step %d: %s fell from %g to %g", seed, step, key, before, v)
						}
						last[key] = v
					}
					switch gpu := labelOf(m, "gpu"); name {
					case "gpu_share_ratio":
						share[gpu] += v
					case "gpu_busy_seconds_total":
						busy[gpu] += v - lastBusy[key]
						lastBusy[key] = v
					}
				}
			}
			for gpu := range share {
				if share[gpu] > 1+1e-9 {
					t.Fatalf("seed %d step %d: the shares of GPU %s sum to %g", seed, step, gpu, share[gpu])
				}
				// A value that is missing for two readings is interpolated at the third.
				if most := max(w.now.Sub(lastAt).Seconds(), 0) + 2.5; busy[gpu] > most {
					t.Fatalf("seed %d step %d: GPU %s computed %g s in %g s", seed, step, gpu, busy[gpu], most)
				}
			}
			lastAt = w.now
		}
		for i := range 2 {
			// Resets lose at most what was drawn before them within one gap.
			got := 0.0
			for series, t := range c.ledger.tallies {
				if strings.HasSuffix(series, fmt.Sprintf(`gpu_uuid="GPU-%d"`, i)) { // not of an instance
					got = t.joules
				}
			}
			if math.Abs(got-w.drawn[i]) > 0.1*w.drawn[i] || got > w.drawn[i]+1 {
				t.Errorf("seed %d: GPU %d drew %g J, counted %g", seed, i, w.drawn[i], got)
			}
		}
	}
}

// tallied feeds one GPU's values and returns its tally.
func tallied(values ...[]Value) (t *tally) {
	l := newLedger(time.Second)
	for _, v := range values {
		e := Entity{Kind: GPU, UUID: "GPU-a", Values: v}
		m := &Moment{taken: start, subjects: []subject{{entity: &e, labels: &labelSet{entity: &e}, busy: busyOf(&e)}}}
		if len(v) > 0 {
			m.taken = v[0].Time
		}
		l.observe(m)
		t = m.subjects[0].tally
	}
	return t
}

func at(seconds float64, field uint16, number float64) []Value {
	return []Value{{Field: field, Number: number, Time: start.Add(time.Duration(seconds * float64(time.Second)))}}
}

func TestEnergy(t *testing.T) {
	for _, c := range []struct {
		name   string
		values [][]Value
		want   float64
	}{
		{"begins where the driver's counter stands", [][]Value{at(0, 156, 2e6)}, 2000},
		{"grows with it", [][]Value{at(0, 156, 2e6), at(1, 156, 2.5e6)}, 2500},
		{"goes on after a reset", [][]Value{at(0, 156, 2e6), at(1, 156, 3e5), at(2, 156, 4e5)}, 2400},
		{"a zero misread costs nothing", [][]Value{at(0, 156, 2e9), at(1, 156, 0), at(2, 156, 2e9+2e5), at(3, 156, 2e9+3e5)}, 2_000_100},
		{"a leap that no GPU can draw is not energy", [][]Value{at(0, 156, 2e6), at(1, 156, 2e12), at(2, 156, 2e12+5e5)}, 2500},
		{"a fall to what no GPU draws in a second is not energy", [][]Value{at(0, 156, 2e9), at(1, 156, 1e9), at(2, 156, 1e9+1e5)}, 2_000_100},
		{"the same value twice counts once", [][]Value{at(0, 156, 2e6), at(1, 156, 2.5e6), at(1, 156, 2.5e6)}, 2500},
		{"the clock set back by an hour", [][]Value{at(0, 156, 2e6), at(1, 156, 2.5e6), at(-3598, 156, 3e6), at(-3597, 156, 3.5e6)}, 3000},
		{"a gap of an hour is all drawn", [][]Value{at(0, 156, 0), at(3600, 156, 3600*5e5)}, 1_800_000},
	} {
		if got := tallied(c.values...).joules; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %g J, want %g", c.name, got, c.want)
		}
	}
}

func TestBusyAndThrottleSeconds(t *testing.T) {
	for _, c := range []struct {
		name   string
		field  uint16
		values [][]Value
		want   float64
	}{
		{"the first value adds no time", 1001, [][]Value{at(0, 1001, 1)}, 0},
		{"the ratio is of the time before it", 1001, [][]Value{at(0, 1001, 1), at(1, 1001, 0.25)}, 0.25},
		{"a percentage stands in", 203, [][]Value{at(0, 203, 100), at(2, 203, 50)}, 1},
		{"a missing value is bridged", 1001, [][]Value{at(0, 1001, 1), nil, at(2, 1001, 0.5)}, 1},
		{"a gap is not counted", 1001, [][]Value{at(0, 1001, 1), at(60, 1001, 1), at(61, 1001, 1)}, 1},
		{"time that runs backwards is none", 1001, [][]Value{at(5, 1001, 1), at(1, 1001, 1), at(6, 1001, 1)}, 1},
		{"two reasons at once", 112, [][]Value{at(0, 112, 0), at(1, 112, 0x4|0x20), at(2, 112, 0x4)}, 2},
		{"the clock set back by an hour", 1001, [][]Value{at(0, 1001, 1), at(1, 1001, 1), at(-3599, 1001, 1), at(-3598, 1001, 1)}, 2},
		{"another reason's time is its own", 112, [][]Value{at(0, 112, 0), at(1, 112, 1)}, 0},
	} {
		got := tallied(c.values...)
		seconds := got.busy
		if c.field == fieldClockEvents {
			seconds = got.throttled[2] // power_cap
		}
		if math.Abs(seconds-c.want) > 1e-9 {
			t.Errorf("%s: %g s, want %g", c.name, seconds, c.want)
		}
	}
	if got := tallied(at(0, 112, 0), at(1, 112, 0x4|0x20)); got.throttled[5] != 1 || got.throttled[1] != 0 {
		t.Errorf("seconds by reason: %v", got.throttled)
	}
}

// What a GPU did while it was absent is not counted, however short that was.
func TestAbsenceIsNotBridged(t *testing.T) {
	l := newLedger(time.Second)
	counted := 0.0
	step := func(second float64, there bool) {
		m := &Moment{taken: start.Add(time.Duration(second * float64(time.Second)))}
		if there {
			e := Entity{Kind: GPU, UUID: "GPU-a", Values: at(second, 1001, 1)}
			m.subjects = []subject{{entity: &e, labels: &labelSet{entity: &e}, busy: busyOf(&e)}}
		}
		l.observe(m)
		for _, s := range m.subjects {
			counted = s.tally.busy
		}
	}
	step(0, true)
	step(1, true)
	step(2, false)
	step(3, true)
	if counted != 1 {
		t.Errorf("%g s, want the one that was seen", counted)
	}
}

func TestBudget(t *testing.T) {
	c := compiler()
	r := &Reading{Taken: start}
	for i := range 10 {
		e := device(0.5, start)
		e.GPU, e.UUID = i, fmt.Sprintf("GPU-%d", i)
		r.Entities = append(r.Entities, e)
	}
	_, all := c.Compile(r, Attribution{}).Append(nil, start, false)
	c.opts.MaxSeries = 25
	page := c.Compile(r, Attribution{})
	b, count := page.Append(nil, start, false)
	out := 0
	for _, n := range page.LeftOut {
		out += n
	}
	if count.Series != 25 || out != all.Series-25 {
		t.Errorf("%d series served, %d left out of %d", count.Series, out, all.Series)
	}
	if page.LeftOut["DCGM_FI_DEV_POWER_USAGE"] != 10 || page.LeftOut["gpu_info"] != 0 || !strings.Contains(string(b), "gpu_info{") {
		t.Errorf("left out %v: the DCGM series go first", page.LeftOut)
	}
	c.opts.MaxSeries = 0
	page = c.Compile(r, Attribution{})
	if len(page.LeftOut) > 0 {
		t.Errorf("without a budget %v is left out", page.LeftOut)
	}
}
