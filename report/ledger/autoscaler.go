package ledger

import (
	"math"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// counter is one of the autoscaler's capacity counters, of one replica.
type counter struct {
	replica string
	pm      [2]string // pool and model
	values  []float64
	growth  []float64
	begun   []int
}

// autoscaler enters the autoscaler's counters. It returns the steps with a sample, and
// the steps it has entered. A step without a sample, neither here nor in seen, is
// unknown as far as there were GPUs before and after.
func (b *book) autoscaler(a query.Answers, seen *exporterRecord) (counted, entered []bool) {
	g := b.l.Grid
	counted, entered = make([]bool, g.N+1), make([]bool, g.N+1)
	counters := read(a.Lines[query.Capacity], g)
	unsaid := a.Missing(g, query.Places)
	blind(counters, unsaid)
	if len(counters) == 0 {
		return counted, entered
	}
	known := Known(a.Lines[query.Capacity], g)
	for known <= g.N && unsaid[known] {
		known++
	}
	f := newFlow(counters, a.Lines[query.Places], g, known)
	for _, c := range counters {
		for k := 1; k <= g.N; k++ {
			if c.growth[k] > 0 {
				counted[k] = true
			}
		}
	}
	sums := b.places(a, f, known)
	for k := known + 1; k <= g.N; k++ {
		if !counted[k] && seen.has(k) {
			continue // the exporter's record replaces the missing one
		}
		entered[k] = true
		for _, pm := range f.pms {
			there := f.capacity[pm][k]
			if f.broken[k] {
				if lost := f.expected(pm, k) - there; lost > 0.05*f.expected(pm, k) {
					there += lost
					b.l.Lost += lost
				}
			}
			if there == 0 && sums[pm][k] == 0 {
				continue
			}
			b.there(k, pm[0], pm[1], there)
			b.rest(k, pm, there-sums[pm][k])
		}
		counted[k] = counted[k] || !f.broken[k]
	}
	return counted, entered
}

// rest is the capacity that no place accounts for; it is unknown. Places are read a
// moment after the capacity, so their sum may exceed it a little: the excess is added to
// the capacity.
func (b *book) rest(k int, pm [2]string, seconds float64) {
	if seconds > 0 {
		if seconds < 1e-6*b.l.Grid.Step.Seconds() {
			return // a rounding error
		}
		b.put(k, Key{Pool: pm[0], Model: pm[1]}, Unknown, seconds)
		return
	}
	b.l.Capacity -= seconds
	b.l.Over -= seconds
}

// places enters the counters of places and returns their sums by pool and model.
func (b *book) places(a query.Answers, f *flow, known int) map[[2]string][]float64 {
	g := b.l.Grid
	sums := map[[2]string][]float64{}
	for _, pm := range f.pms {
		sums[pm] = make([]float64, g.N+1)
	}
	for _, line := range a.Lines[query.Places] {
		place, ok := parsePlace(line.Labels.Get(metric.LabelPlace))
		if !ok {
			continue // a place of a later version: it is in the capacity, as unknown
		}
		pm := poolModel(line.Labels)
		sum, l := sums[pm], f.lives[replica(line.Labels)]
		if sum == nil || l == nil {
			continue // a part of no capacity that was read
		}
		key := Key{Pool: pm[0], Model: pm[1]}
		if place.Allocated() {
			key.Tenant = name(line.Labels.Get(metric.LabelTenant))
			key.Namespace = name(line.Labels.Get(a.Dialect.AutoscalerNamespace()))
		}
		values := Values(line, g)
		for k := range values {
			if l.stale[k] {
				values[k] = math.NaN()
			}
		}
		growth, begun := Growth(values, known, l.again, l.taken)
		for _, k := range begun {
			l.begin(growth, k)
		}
		for k := known + 1; k <= g.N; k++ {
			if growth[k] > 0 {
				b.put(k, key, place, growth[k])
				sum[k] += growth[k]
			}
		}
	}
	return sums
}

func read(lines []prom.Line, g query.Grid) []counter {
	var all []counter
	for _, l := range lines {
		all = append(all, counter{replica: replica(l.Labels), pm: poolModel(l.Labels), values: trusted(l, g)})
	}
	return all
}

// blind discards the capacity of steps without samples of places: over a gap both are
// interpolated together.
func blind(counters []counter, missing []bool) {
	for _, c := range counters {
		for k, is := range missing {
			if is {
				c.values[k] = math.NaN()
			}
		}
	}
}

// lookback is how long Prometheus repeats the last value of a series without a staleness
// marker.
const lookback = 5 * time.Minute

// trusted reads a counter without the values that Prometheus repeats before a gap, or
// before the counter restarts.
func trusted(l prom.Line, g query.Grid) []float64 {
	values := Values(l, g)
	most := int((lookback + g.Step - 1) / g.Step)
	for i := 1; i < len(values); i++ {
		if math.IsNaN(values[i-1]) || !math.IsNaN(values[i]) && values[i] >= values[i-1] {
			continue
		}
		for j := i - 1; j > 0 && j > i-1-most && values[j-1] == values[j]; j-- {
			values[j] = math.NaN()
		}
	}
	return values
}

func replica(ls prom.Labels) string { return ls.Get("instance") + "\xff" + ls.Get("pod") }

func poolModel(ls prom.Labels) [2]string {
	return [2]string{name(ls.Get(metric.LabelPool)), modelName(ls.Get(metric.LabelModel))}
}

// name is a label's value, empty for metric.NotApplicable.
func name(v string) string {
	if v == metric.NotApplicable {
		return ""
	}
	return v
}

func modelName(label string) string {
	if label == metric.Other || label == metric.NotApplicable || label == "" {
		return name(label)
	}
	return gpu.ProductName(label)
}
