package model

import "sort"

// vLLM's own bucket bounds, in seconds.
var (
	firstTokenBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	requestBounds    = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// histogram counts observations per bucket, not cumulated; the last count is
// for values above every bound.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	h.counts[sort.SearchFloat64s(h.bounds, v)]++
	h.sum += v
}

// cumulated gives Prometheus's form: the total, and by bound how many values
// were at most that.
func (h *histogram) cumulated() (total uint64, le map[float64]uint64) {
	le = make(map[float64]uint64, len(h.bounds))
	for i, b := range h.bounds {
		total += h.counts[i]
		le[b] = total
	}
	return total + h.counts[len(h.bounds)], le
}
