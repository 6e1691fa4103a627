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

// Grown is how much a counter grew over a grid. A value smaller than the one before is a counter
// reset: all of it counts. A counter that appears later than known, when others were read already,
// began at zero.
func Grown(values []float64, known int) float64 {
	sum, last := 0.0, math.NaN()
	for i, v := range values {
		switch {
		case math.IsNaN(v), math.IsNaN(last) && i <= known: // what it had before is not ours
		case math.IsNaN(last), v < last:
			sum += max(0, v)
		default:
			sum += v - last
		}
		if !math.IsNaN(v) {
			last = v
		}
	}
	return sum
}

// Known is the first moment at or before which any of the lines has a value, N+1 for none. Their own
// steps may be shorter.
func Known(lines []prom.Line, g query.Grid) int {
	first := g.N + 1
	for _, l := range lines {
		for _, p := range l.Points {
			if i, ok := g.Index(p.Time); ok {
				if p.Time.After(g.At(i)) {
					i++
				}
				first = min(first, i)
				break
			}
		}
	}
	return first
}
