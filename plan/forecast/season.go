package forecast

import (
	"math"
	"slices"
	"time"
)

// lastValue forecasts no change: the newest known step.
type lastValue struct{}

func (lastValue) run(g *grid, ks, origins []int) [][]float64 {
	out := unknownRows(len(ks), len(origins))
	for o, i := range origins {
		if g.seen[i] < 0 {
			continue
		}
		for h := range ks {
			out[h][o] = g.last[g.seen[i]]
		}
	}
	return out
}

// sameTime forecasts the value at the same time in seasons before: the median of at most count of them, the newest
// first. Unknown ones are skipped.
type sameTime struct {
	period time.Duration
	count  int
	around time.Duration // a value is the mean of so long before and after its time
	level  time.Duration // the mean difference of the newest values, of so long, is added; 0 for not
}

func (s sameTime) run(g *grid, ks, origins []int) [][]float64 {
	out := unknownRows(len(ks), len(origins))
	near := int(s.around / g.cell)
	values, shift := means(g.mean, near, near), make([]float64, len(g.mean))
	if s.level > 0 {
		for i := range shift {
			shift[i] = g.mean[i] - s.before(g, values, near, i, i)
		}
		shift = means(shift, int(s.level/g.cell), 0)
	}
	for o, i := range origins {
		for h, k := range ks {
			out[h][o] = s.before(g, values, near, i+k, i) + shift[i]
		}
	}
	return out
}

// before is the median of the values at a cell's time in seasons before, as far as these are known at cell now, with near
// cells after them; NaN for none.
func (s sameTime) before(g *grid, values []float64, near, cell, now int) float64 {
	length := float64(s.period) / float64(g.cell)
	found := make([]float64, 0, 8) // more than the largest count
	for n := 1.0; len(found) < s.count; n++ {
		at := cell - int(math.Round(n*length))
		if at < 0 {
			break
		}
		if at+near <= now && !math.IsNaN(values[at]) {
			found = append(found, values[at])
		}
	}
	if len(found) == 0 {
		return math.NaN()
	}
	return median(found)
}

// means are, for each value, the mean of the known ones from so many before it to so many after it; NaN for none.
func means(xs []float64, before, after int) []float64 {
	if before+after == 0 {
		return xs
	}
	sums, counts := make([]float64, len(xs)+1), make([]float64, len(xs)+1)
	for i, x := range xs {
		if sums[i+1], counts[i+1] = sums[i], counts[i]; !math.IsNaN(x) {
			sums[i+1], counts[i+1] = sums[i]+x, counts[i]+1
		}
	}
	out := make([]float64, len(xs))
	for i := range out {
		from, to := max(0, i-before), min(len(xs), i+after+1)
		out[i] = (sums[to] - sums[from]) / (counts[to] - counts[from]) // 0/0 is NaN
	}
	return out
}

// median returns the median of xs, and sorts them.
func median(xs []float64) float64 {
	slices.Sort(xs)
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}
