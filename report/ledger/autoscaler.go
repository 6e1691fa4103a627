package ledger

import (
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// autoscaler enters the autoscaler's counters. It returns which steps have a sample, and which steps it has
// entered. A step without a sample here and in seen is unknown time, if there were GPUs before and after it.
func (b *book) autoscaler(a query.Answers, seen *exporterRecord) (counted, entered []bool) {
	n := b.l.Grid.N
	counted, entered = make([]bool, n+1), make([]bool, n+1)
	f := newFlow(a, b.l.Grid)
	sums := map[Key][]float64{} // of all places
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
			continue // the exporter's record is used for this step
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

// rest enters the capacity that no place accounts for as unknown. Places are read a moment after the
// capacity, so their sum may be slightly larger; that excess is added to the capacity.
func (b *book) rest(k int, pm Key, seconds float64) {
	switch {
	case seconds <= 0:
		b.l.Capacity -= seconds
		b.l.Over -= seconds
	case seconds >= 1e-6*b.l.Grid.Step.Seconds(): // less is a rounding error
		b.put(k, pm, Unknown, seconds)
	}
}

func poolModel(ls prom.Labels) Key {
	return Key{Pool: name(ls.Get(metric.LabelPool)), Model: modelName(ls.Get(metric.LabelModel))}
}

// name returns a label's value, or "" for metric.NotApplicable.
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
