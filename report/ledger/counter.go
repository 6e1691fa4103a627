package ledger

import (
	"math"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// Values puts a line's points on a grid, with NaN where there is no point. Infinities, and points between two
// moments of the grid, are left out.
func Values(l prom.Line, g query.Grid) []float64 {
	v := nans(g.N + 1)
	for _, p := range l.Points {
		if i, ok := g.Index(p.Time); ok && !math.IsInf(p.Value, 0) {
			v[i] = p.Value
		}
	}
	return v
}

// Grown returns how much a counter grew over a grid. A smaller value than the one before is a counter reset,
// so the whole value counts. A counter whose first value comes after the moment known began at zero, because
// other counters were already read at that moment.
func Grown(values []float64, known int) float64 {
	sum, last := 0.0, math.NaN()
	for i, v := range values {
		switch {
		case math.IsNaN(v), math.IsNaN(last) && i <= known: // what it had counted before is not counted here
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

// Known returns the first moment of the grid at or before which any line has a value; N+1 if there is none.
// The lines' own steps may be shorter.
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
