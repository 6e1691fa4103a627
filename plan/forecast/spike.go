package forecast

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
)

const (
	spikeWindow = 5     // known cells, the judged one included
	spikeReach  = 15    // cells that the window may span, gaps counted
	spikeRare   = 0.975 // deviations up to this quantile are ordinary
	spikeTimes  = 3.0   // and a spike is this many times larger
)

// clip moves spikes, values that stand alone, to the edge of ordinary deviations. A
// value is compared only with those before it, so that a test from the past
// sees what was visible then. A jump counts as a spike until three of five
// values share it. A peak that was there a season before is no spike.
func clip(xs []float64, cell time.Duration, seasons []time.Duration) {
	middle := trailingMedians(xs)
	away := floats.SubTo(unknowns(len(xs)), xs, middle)
	sizes := known(away)
	if len(sizes) == 0 {
		return
	}
	for i, d := range sizes {
		sizes[i] = math.Abs(d)
	}
	slices.Sort(sizes)
	fence := spikeTimes * sizes[int(spikeRare*float64(len(sizes)-1))]
	for i, d := range away {
		if math.Abs(d) > fence && !again(away, i, d/2, cell, seasons) {
			xs[i] = middle[i] + math.Copysign(fence, d)
		}
	}
}

// trailingMedians returns, for each known value, the median of it and the known
// ones before it; NaN where too few are near.
func trailingMedians(xs []float64) []float64 {
	out := unknowns(len(xs))
	window := make([]int, 0, spikeWindow+1) // indices of the newest known values
	sorted := make([]float64, 0, spikeWindow)
	for i, x := range xs {
		if math.IsNaN(x) {
			continue
		}
		if window = append(window, i); len(window) > spikeWindow {
			window = slices.Delete(window, 0, 1)
		}
		if len(window) < spikeWindow || i-window[0] > spikeReach {
			continue
		}
		sorted = sorted[:0]
		for _, j := range window {
			sorted = append(sorted, xs[j])
		}
		slices.Sort(sorted)
		out[i] = sorted[spikeWindow/2]
	}
	return out
}

// again reports whether there was a deviation of at least this size, on the
// same side, one season before, give or take a cell.
func again(away []float64, i int, size float64, cell time.Duration, seasons []time.Duration) bool {
	for _, s := range seasons {
		back := i - int((s+cell/2)/cell)
		for j := max(0, back-1); j <= back+1; j++ {
			if away[j]/size >= 1 {
				return true
			}
		}
	}
	return false
}
