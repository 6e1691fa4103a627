package ledger

import (
	"math"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// Values puts a line's points on a grid: NaN where there is none. Infinities and
// what is between two moments are left out.
func Values(l prom.Line, g query.Grid) []float64 {
	v := nans(g.N + 1)
	for _, p := range l.Points {
		if i, ok := g.Index(p.Time); ok && !math.IsInf(p.Value, 0) {
			v[i] = p.Value
		}
	}
	return v
}

// Growth is how much a counter grew in each step of a grid, one value a step and
// growth[0] always 0. Over a hole it is spread evenly, since the counter went on without
// being read. A value smaller than the one before is a counter reset: all of it counts.
// A counter that appears later than known, when others were read already, began at zero.
// begun lists the steps in which it began, whether again or for the first time.
//
// again are known resets, at which its value may be larger. It does not grow in the steps of
// taken, in which another replica counted. Both may be nil.
func Growth(values []float64, known int, again map[int]bool, taken []bool) (growth []float64, begun []int) {
	growth = make([]float64, len(values))
	last := -1
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		switch {
		case last < 0:
			if i > known {
				growth[i] = max(0, v)
				begun = append(begun, i)
			}
		case v < values[last] || between(again, last, i):
			growth[i] = max(0, v)
			begun = append(begun, i)
		default:
			var open []int
			for k := last + 1; k < i; k++ {
				if taken == nil || !taken[k] {
					open = append(open, k)
				}
			}
			open = append(open, i)
			for _, k := range open {
				growth[k] = (v - values[last]) / float64(len(open))
			}
		}
		last = i
	}
	return growth, begun
}

// between reports whether any of the moments is after one and up to another. A counter
// that is absent while its process restarts is reset as well.
func between(moments map[int]bool, after, upTo int) bool {
	for k := range moments {
		if k > after && k <= upTo {
			return true
		}
	}
	return false
}

// Grown is the sum of Growth.
func Grown(values []float64, known int) float64 {
	growth, _ := Growth(values, known, nil, nil)
	sum := 0.0
	for _, v := range growth {
		sum += v
	}
	return sum
}

// Known is the first moment at which any of the lines has a value, N+1 for none.
func Known(lines []prom.Line, g query.Grid) int {
	first := g.N + 1
	for _, l := range lines {
		for _, p := range l.Points {
			if i, ok := g.Index(p.Time); ok {
				first = min(first, i)
				break
			}
		}
	}
	return first
}
