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

// sameTime forecasts the value at the same time in seasons before: the median
// of at most count of them, the newest first. Unknown ones are skipped.
type sameTime struct {
	period time.Duration
	count  int
}

func (s sameTime) run(g *grid, ks, origins []int) [][]float64 {
	out := unknownRows(len(ks), len(origins))
	length := float64(s.period) / float64(g.cell)
	var found []float64
	for h, k := range ks {
		skip := math.Ceil(float64(k) / length) // seasons back to a cell that is known at the origin
		for o, i := range origins {
			found = found[:0]
			for n := skip; len(found) < s.count; n++ {
				from := float64(i+k) - math.Round(n*length)
				if from < 0 {
					break
				}
				if y := g.mean[int(from)]; !math.IsNaN(y) {
					found = append(found, y)
				}
			}
			if len(found) > 0 {
				out[h][o] = median(found)
			}
		}
	}
	return out
}

// median returns the median of xs, and sorts them.
func median(xs []float64) float64 {
	slices.Sort(xs)
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}
