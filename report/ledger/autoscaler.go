package ledger

import (
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// autoscaler enters the autoscaler's counters. It returns the steps with a sample, and
// the steps it has entered. A step without a sample, neither here nor in seen, is
// unknown as far as there were GPUs before and after.
func (b *book) autoscaler(a query.Answers, seen *exporterRecord) (counted, entered []bool) {
	n := b.l.Grid.N
	counted, entered = make([]bool, n+1), make([]bool, n+1)
	f := newFlow(a, b.l.Grid)
	sums := map[Key][]float64{} // of the places
	pms := slices.SortedFunc(maps.Keys(f.capacity), Key.compare)
	for pm, growth := range f.capacity {
		sums[pm] = make([]float64, n+1)
		for k, v := range growth {
			counted[k] = counted[k] || v > 0
		}
	}
	for _, r := range f.replicas {
		for _, c := range r.counters {
			sum := sums[c.key.poolModel()]
			for k := f.known + 1; k <= n && !c.capacity && sum != nil; k++ {
				b.put(k, c.key, c.place, c.growth[k])
				sum[k] += c.growth[k]
			}
		}
	}
	for k := f.known + 1; k <= n; k++ {
		if !counted[k] && seen.has(k) {
			continue // the exporter's record replaces the missing one
		}
		entered[k] = true
		for _, pm := range pms {
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
			b.there(k, pm, there)
			b.rest(k, pm, there-sums[pm][k])
		}
		counted[k] = counted[k] || !f.broken[k]
	}
	return counted, entered
}

// rest is the capacity that no place accounts for; it is unknown. Places are read a
// moment after the capacity, so their sum may exceed it a little: the excess is added to
// the capacity.
func (b *book) rest(k int, pm Key, seconds float64) {
	switch {
	case seconds <= 0:
		b.l.Capacity -= seconds
		b.l.Over -= seconds
	case seconds >= 1e-6*b.l.Grid.Step.Seconds(): // else it is a rounding error
		b.put(k, pm, Unknown, seconds)
	}
}

func poolModel(ls prom.Labels) Key {
	return Key{Pool: name(ls.Get(metric.LabelPool)), Model: modelName(ls.Get(metric.LabelModel))}
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
